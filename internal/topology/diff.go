package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
)

// Difference is one setting of one stream that differs from the required one.
type Difference struct {
	Class   Class
	Stream  string // name, e.g. TR_CHUNKS_0
	Setting string // e.g. "max age"; "" for the whole stream
	Got     string // in words
	Want    string // in words
	Remedy  string // what to do
	Risk    string // of Breaks: what happens otherwise
}

// String returns the difference as one line.
func (d Difference) String() string {
	is := ""
	if d.Setting != "" {
		is = d.Setting + " is "
	}
	line := fmt.Sprintf("%s: %s%s, want %s; %s", d.Stream, is, d.Got, d.Want, d.Remedy)
	if d.Risk != "" {
		line += "; otherwise " + d.Risk
	}
	return line
}

// DiffError reports the differences of class Breaks. Nothing was changed.
type DiffError struct {
	Differences []Difference // at least one
}

// Error returns one line for each difference.
func (e *DiffError) Error() string {
	lines := make([]string, len(e.Differences))
	for i, d := range e.Differences {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}

// compare returns the differences.
func compare(got jetstream.StreamConfig, want streamSpec) []Difference {
	var diffs []Difference
	is, should := settings(got), settings(want.StreamConfig)
	for i := range should {
		switch {
		case is[i].value == should[i].value:
			continue
		case should[i].name == placementSetting && should[i].value == nothing:
			continue
		case should[i].name == snapshotsSetting && is[i].value == nothing: // another tool has created the bucket
			continue
		}
		d := Difference{
			Class:   want.classOf(is[i], should[i], got),
			Stream:  want.Name,
			Setting: should[i].name,
			Got:     is[i].value,
			Want:    should[i].value,
			Remedy:  want.remedy(is[i].value, should[i]),
		}
		if d.Class == Breaks {
			d.Risk = riskOf(d.Setting)
		} else if slices.Contains(want.unset, d.Setting) {
			continue
		}
		diffs = append(diffs, d)
	}
	return diffs
}

// remedy describes how to make both sides equal.
func (w streamSpec) remedy(got string, s setting) string {
	if s.name == partitionsSetting {
		if got == nothing {
			return fmt.Sprintf("if it was created for %s, record that with `nats stream edit %s --metadata %s=%s`", s.value, w.Name, partitionsKey, s.value)
		}
		return fmt.Sprintf("set Layout.Partitions (TAILRACE_PARTITIONS) to %s: the number is fixed when the streams are created", got)
	}
	if s.name == snapshotAgeSetting {
		return fmt.Sprintf("change it with `nats stream edit -i %s` in the metadata, %s", w.Name, jsclient.MaxAgeKey)
	}
	if s.name == snapshotsSetting {
		return "choose another Layout.SnapshotBucket: this bucket belongs to another one"
	}
	change := fmt.Sprintf("change it with `nats stream edit %s`", w.Name)
	if s.fixed {
		change = "the server does not change that in place: delete the stream when its data is no longer needed"
	}
	switch field := w.fields[s.name]; {
	case field == "":
		return change
	case s.name == subjectsSetting:
		return change + ", or choose another " + field
	case got != nothing && got != unlimitedText:
		return fmt.Sprintf("%s, or set %s to %s", change, field, got)
	case slices.Contains(bounded, field):
		return change
	default:
		return fmt.Sprintf("%s, or set %s to 0", change, field)
	}
}

// bounded holds the fields that cannot mean "no limit".
var bounded = []string{"Log.MaxAge", "Commands.MaxAge", "Inbox.MaxAge", "DeadLetters.MaxAge", "DeadLetters.MaxBytes", "MaxConsumers", "MaxMsgSize", "MaxSnapshot"}

package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Difference is one setting of one stream that differs from the required one.
type Difference struct {
	Stream  string // name, e.g. TR_CHUNKS_0
	Setting string // e.g. "max age"; "" for the whole stream
	Got     string // in words
	Want    string // in words
	Remedy  string // what to do
}

// String returns the difference as one line.
func (d Difference) String() string {
	if d.Setting == "" {
		return fmt.Sprintf("%s: %s, want %s; %s", d.Stream, d.Got, d.Want, d.Remedy)
	}
	return fmt.Sprintf("%s: %s is %s, want %s; %s", d.Stream, d.Setting, d.Got, d.Want, d.Remedy)
}

// DiffError reports the settings in which the streams of the server differ from the required ones. Nothing was changed.
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

// setting is one property of a stream as text. Only properties that affect the guarantees of Tailrace are compared, not for example the description or the
// placement.
type setting struct {
	name  string
	value string
	fixed bool // the server does not let it be changed to this
}

// The settings that a field of Config decides.
const (
	subjectsSetting     = "the list of subjects"
	partitionsSetting   = "number of partitions"
	storageSetting      = "storage"
	replicasSetting     = "number of replicas"
	maxAgeSetting       = "max age"
	maxBytesSetting     = "max bytes"
	maxMsgSizeSetting   = "max message size"
	maxConsumersSetting = "max consumers"
)

// settings returns the compared properties of a stream, in a fixed order.
func settings(c jetstream.StreamConfig) []setting {
	return []setting{
		{name: subjectsSetting, value: strings.Join(c.Subjects, " ")},
		{name: partitionsSetting, value: orNone(c.Metadata[partitionsKey])},
		{name: "retention", value: c.Retention.String(), fixed: true},
		{name: storageSetting, value: c.Storage.String(), fixed: true},
		{name: replicasSetting, value: strconv.Itoa(max(1, c.Replicas))},
		{name: maxAgeSetting, value: age(c.MaxAge)},
		{name: maxBytesSetting, value: count(c.MaxBytes)},
		{name: maxMsgSizeSetting, value: count(int64(c.MaxMsgSize))},
		{name: "max messages", value: count(c.MaxMsgs)},
		{name: "max messages per subject", value: count(c.MaxMsgsPerSubject)},
		{name: maxConsumersSetting, value: count(int64(c.MaxConsumers))},
		{name: "what is discarded when full", value: c.Discard.String()},
		{name: "discard new per subject", value: onOff(c.DiscardNewPerSubject)},
		{name: "duplicate window", value: c.Duplicates.String()},
		{name: "compression", value: c.Compression.String()},
		{name: "direct get", value: onOff(c.AllowDirect)},
		{name: "message TTL", value: onOff(c.AllowMsgTTL), fixed: !c.AllowMsgTTL},
		{name: "roll-up headers", value: onOff(c.AllowRollup)},
		{name: "deny delete", value: onOff(c.DenyDelete), fixed: !c.DenyDelete},
		{name: "deny purge", value: onOff(c.DenyPurge), fixed: !c.DenyPurge},
		{name: "acknowledgement", value: onOff(!c.NoAck)},
		{name: "sealed", value: onOff(c.Sealed), fixed: true},
		{name: "mirror", value: mirror(c.Mirror)},
		{name: "sources", value: sources(c.Sources)},
		{name: "republish", value: republish(c.RePublish)},
		{name: "subject transform", value: transform(c.SubjectTransform)},
		{name: "consumer limits", value: consumerLimits(c.ConsumerLimits)},
		{name: "delete markers", value: age(c.SubjectDeleteMarkerTTL)},
		{name: "message counters", value: onOff(c.AllowMsgCounter), fixed: true},
		{name: "atomic batches", value: onOff(c.AllowAtomicPublish)},
		{name: "fast batches", value: onOff(c.AllowBatchPublish)},
		{name: "message schedules", value: onOff(c.AllowMsgSchedules), fixed: !c.AllowMsgSchedules},
		{name: "persist mode", value: c.PersistMode.String(), fixed: true},
	}
}

// compare returns the differences.
func compare(got jetstream.StreamConfig, want streamSpec) []Difference {
	var diffs []Difference
	is, should := settings(got), settings(want.StreamConfig)
	for i := range should {
		if is[i].value == should[i].value {
			continue
		}
		diffs = append(diffs, Difference{
			Stream:  want.Name,
			Setting: should[i].name,
			Got:     is[i].value,
			Want:    should[i].value,
			Remedy:  want.remedy(is[i].value, should[i]),
		})
	}
	return diffs
}

// remedy describes how to make both sides equal.
func (w streamSpec) remedy(got string, s setting) string {
	if s.name == partitionsSetting {
		if got == nothing {
			return fmt.Sprintf("if it was created for %s, record that with `nats stream edit %s --metadata %s=%s`", s.value, w.Name, partitionsKey, s.value)
		}
		return fmt.Sprintf("set Layout.Partitions to %s, or move the sessions as the documentation of package topology describes", got)
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
var bounded = []string{"MaxAge", "CommandMaxAge", "InboxMaxAge", "DeadLetterMaxAge", "DeadLetterMaxBytes", "MaxConsumers", "MaxMsgSize", "MaxSnapshot"}

// Texts for settings that are not in use.
const (
	nothing       = "none"
	unlimitedText = "unlimited"
)

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

func count(n int64) string {
	if n <= 0 {
		return unlimitedText
	}
	return strconv.FormatInt(n, 10)
}

func age(d time.Duration) string {
	if d <= 0 {
		return nothing
	}
	return d.String()
}

func orNone(s string) string {
	if s == "" {
		return nothing
	}
	return s
}

func mirror(m *jetstream.StreamSource) string {
	if m == nil {
		return nothing
	}
	return m.Name
}

func sources(list []*jetstream.StreamSource) string {
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = s.Name
	}
	return orNone(strings.Join(names, " "))
}

func republish(r *jetstream.RePublish) string {
	if r == nil {
		return nothing
	}
	return fmt.Sprintf("%s to %s", r.Source, r.Destination)
}

func transform(t *jetstream.SubjectTransformConfig) string {
	if t == nil {
		return nothing
	}
	return fmt.Sprintf("%s to %s", t.Source, t.Destination)
}

func consumerLimits(l jetstream.StreamConsumerLimits) string {
	if l.InactiveThreshold <= 0 && l.MaxAckPending <= 0 {
		return nothing
	}
	return fmt.Sprintf("inactive %s, pending %s", age(l.InactiveThreshold), count(int64(l.MaxAckPending)))
}

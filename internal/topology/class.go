package topology

import (
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
)

// Class says what a Difference means.
type Class int

// The classes, from harmless to harmful.
const (
	// Accepted is the operator's decision: compression, a republish to other subjects, a limit that is higher than the required one.
	Accepted Class = iota

	// Stricter is a limit that is lower than the required one. All guarantees hold within it: what it removes or refuses is reported to readers and writers.
	Stricter

	// Breaks is a setting with which a guarantee does not hold. Ensure and Check return an error.
	Breaks
)

// String returns the name of the class.
func (c Class) String() string {
	switch c {
	case Accepted:
		return "accepted"
	case Stricter:
		return "stricter"
	case Breaks:
		return "breaks"
	}
	return "none"
}

// MarshalText returns the name of the class.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// limits are the settings of which a lower value is Stricter and a higher one Accepted, with the lowest value that is not Breaks.
var limits = map[string]int64{
	maxAgeSetting:        int64(minAge),
	maxBytesSetting:      1,
	maxMsgsSetting:       1,
	maxPerSubjectSetting: 2, // the last record and the one that a writer appends
	maxMsgSizeSetting:    HeaderReserve,
	maxConsumersSetting:  1,
}

// minima are the settings of which a lower value is Breaks and a higher one Accepted.
var minima = []string{replicasSetting, duplicatesSetting}

// classOf returns the class of the difference between is, a setting of got, and should.
func (w streamSpec) classOf(is, should setting, got jetstream.StreamConfig) Class {
	minSize, isLimit := limits[should.name]
	switch {
	case slices.Contains(w.exact, should.name):
		if isLimit && is.size > should.size && should.size != 1 {
			return Accepted
		}
		return Breaks
	case isLimit && is.size < should.size && is.size >= minSize:
		return Stricter
	case isLimit && is.size > should.size:
		return Accepted
	case slices.Contains(minima, should.name) && is.size > should.size:
		return Accepted
	}
	switch should.name {
	case compressionSetting, placementSetting, snapshotAgeSetting:
		return Accepted
	case atomicSetting: // without it, records are stored one by one
		if should.value == onOff(true) {
			return Accepted
		}
	case storageSetting:
		if got.Storage == jetstream.FileStorage {
			return Accepted
		}
	case discardSetting: // a full stream that refuses messages has dropped none
		if got.Discard == jetstream.DiscardNew {
			return Stricter
		}
	case discardPerSubjectSetting:
		if got.DiscardNewPerSubject {
			return Stricter
		}
	case republishSetting:
		if w.RePublish == nil && w.live != nil && *got.RePublish == *w.live {
			return Accepted
		}
		if w.RePublish == nil && !slices.ContainsFunc(w.reserved, func(reserved string) bool { return jsclient.Overlap(got.RePublish.Destination, reserved) }) {
			return Accepted
		}
	}
	return Breaks
}

// risks say what happens while a setting is Breaks.
var risks = map[string]string{
	subjectsSetting:      "messages are refused, or messages of other programs are read as records",
	partitionsSetting:    "readers and writers look for sessions in the wrong stream",
	snapshotsSetting:     "snapshots of different partitions replace each other",
	retentionSetting:     "stored messages are removed early or never",
	storageSetting:       "stored messages are lost when the server stops",
	replicasSetting:      "stored messages are lost with a server",
	maxAgeSetting:        "messages expire before they are used",
	maxBytesSetting:      "accepted messages are dropped when the stream is full",
	maxMsgsSetting:       "accepted messages are dropped when the stream is full",
	maxPerSubjectSetting: "outdated values stay, or records are removed at once",
	maxMsgSizeSetting:    "messages of the usual size are refused",
	discardSetting:       "accepted messages are dropped when the stream is full",
	duplicatesSetting:    "a write that is repeated after a lost response is stored twice",
	"direct get":         "reads fail or return outdated values",
	"deny delete":        "sessions cannot be cleaned up, or values are removed without a trace",
	"deny purge":         "sessions cannot be deleted",
	"acknowledgement":    "writers do not learn whether a message is stored",
	"sealed":             "nothing can be written",
	"mirror":             "nothing can be written",
	"sources":            "messages of other streams are read as records",
	republishSetting:     "republished messages are missing, or are stored as new ones",
	"subject transform":  "messages are stored under other subjects",
	"consumer limits":    "readers cannot create their consumers",
	"delete markers":     "messages of the server are read as records",
	"persist mode":       "acknowledged messages are lost when the server crashes",
}

// riskOf returns what happens while a setting is Breaks.
func riskOf(name string) string {
	if risk, ok := risks[name]; ok {
		return risk
	}
	return "the header of a message can change or remove other messages, or is refused"
}

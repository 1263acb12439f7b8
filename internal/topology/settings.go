package topology

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
)

// setting is one property of a stream as text. The description, the metadata of other programs and, unless a Config asks for one, the placement are not
// compared.
type setting struct {
	name  string
	value string
	size  int64 // of a limit, to compare; noLimit for none
	fixed bool  // the server does not let it be changed to this
}

// The settings that a field of Config decides.
const (
	subjectsSetting     = "the list of subjects"
	partitionsSetting   = "number of partitions"
	snapshotsSetting    = "partition of the snapshots"
	snapshotAgeSetting  = "max age of snapshots"
	storageSetting      = "storage"
	atomicSetting       = "atomic batches"
	replicasSetting     = "number of replicas"
	maxAgeSetting       = "max age"
	maxBytesSetting     = "max bytes"
	maxMsgSizeSetting   = "max message size"
	maxConsumersSetting = "max consumers"
	placementSetting    = "placement"
)

// Settings that classOf and riskOf name.
const (
	maxMsgsSetting           = "max messages"
	maxPerSubjectSetting     = "max messages per subject"
	discardSetting           = "what is discarded when full"
	discardPerSubjectSetting = "discard new per subject"
	duplicatesSetting        = "duplicate window"
	compressionSetting       = "compression"
	republishSetting         = "republish"
	retentionSetting         = "retention"
)

// settings returns the compared properties of a stream, in a fixed order.
func settings(c jetstream.StreamConfig) []setting {
	return []setting{
		{name: subjectsSetting, value: strings.Join(c.Subjects, " ")},
		{name: partitionsSetting, value: orNone(c.Metadata[partitionsKey])},
		{name: snapshotsSetting, value: orNone(c.Metadata[snapshotsKey])},
		{name: snapshotAgeSetting, value: orNone(c.Metadata[jsclient.MaxAgeKey])},
		{name: retentionSetting, value: c.Retention.String(), fixed: true},
		{name: storageSetting, value: c.Storage.String(), fixed: true},
		{name: replicasSetting, value: strconv.Itoa(max(1, c.Replicas)), size: int64(max(1, c.Replicas))},
		{name: maxAgeSetting, value: age(c.MaxAge), size: limit(int64(c.MaxAge))},
		{name: maxBytesSetting, value: count(c.MaxBytes), size: limit(c.MaxBytes)},
		{name: maxMsgSizeSetting, value: count(int64(c.MaxMsgSize)), size: limit(int64(c.MaxMsgSize))},
		{name: maxMsgsSetting, value: count(c.MaxMsgs), size: limit(c.MaxMsgs)},
		{name: maxPerSubjectSetting, value: count(c.MaxMsgsPerSubject), size: limit(c.MaxMsgsPerSubject)},
		{name: maxConsumersSetting, value: count(int64(c.MaxConsumers)), size: limit(int64(c.MaxConsumers))},
		{name: discardSetting, value: c.Discard.String()},
		{name: discardPerSubjectSetting, value: onOff(c.DiscardNewPerSubject)},
		{name: duplicatesSetting, value: c.Duplicates.String(), size: int64(c.Duplicates)},
		{name: compressionSetting, value: c.Compression.String()},
		{name: "direct get", value: onOff(c.AllowDirect)},
		{name: "message TTL", value: onOff(c.AllowMsgTTL), fixed: !c.AllowMsgTTL},
		{name: "roll-up headers", value: onOff(c.AllowRollup)},
		{name: "deny delete", value: onOff(c.DenyDelete), fixed: !c.DenyDelete},
		{name: "deny purge", value: onOff(c.DenyPurge), fixed: !c.DenyPurge},
		{name: "acknowledgement", value: onOff(!c.NoAck)},
		{name: "sealed", value: onOff(c.Sealed), fixed: true},
		{name: "mirror", value: mirror(c.Mirror)},
		{name: "sources", value: sources(c.Sources)},
		{name: republishSetting, value: republish(c.RePublish)},
		{name: "subject transform", value: transform(c.SubjectTransform)},
		{name: "consumer limits", value: consumerLimits(c.ConsumerLimits)},
		{name: "delete markers", value: age(c.SubjectDeleteMarkerTTL)},
		{name: "message counters", value: onOff(c.AllowMsgCounter), fixed: true},
		{name: atomicSetting, value: onOff(c.AllowAtomicPublish)},
		{name: "fast batches", value: onOff(c.AllowBatchPublish)},
		{name: "message schedules", value: onOff(c.AllowMsgSchedules), fixed: !c.AllowMsgSchedules},
		{name: placementSetting, value: placement(c.Placement)},
		{name: "persist mode", value: c.PersistMode.String(), fixed: true},
	}
}

// noLimit is the size of a limit that is not set.
const noLimit = math.MaxInt64

// limit returns the size of a limit as the server has it.
func limit(n int64) int64 {
	if n <= 0 {
		return noLimit
	}
	return n
}

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
	return cmp.Or(s, nothing)
}

func placement(p *jetstream.Placement) string {
	if p == nil {
		return nothing
	}
	return orNone(strings.TrimSpace(p.Cluster + " " + strings.Join(p.Tags, " ")))
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

package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/subjects"
)

// streamsFile is the file of sizes, ages and placement of new streams and buckets, see docs/guides/operate.md. A member that is missing is the default.
type streamsFile struct {
	Placement   *jetstream.Placement `json:"placement"`
	Log         streamSize           `json:"log"` // of each partition; MAX_AGE is its age
	Commands    streamLimits         `json:"commands"`
	Deadlines   streamSize           `json:"deadlines"`
	Inbox       streamLimits         `json:"inbox"`
	Credentials streamSize           `json:"credentials"`
	Usage       streamSize           `json:"usage"`
	Snapshots   snapshotLimits       `json:"snapshots"`
	Objects     streamSize           `json:"objects"`
	DeadLetters streamLimits         `json:"deadLetters"`
	Audit       streamLimits         `json:"audit"`
}

// streamSize is that of a stream whose age is fixed, or a setting.
type streamSize struct {
	MaxBytes byteSize `json:"maxBytes"`
}

func (s streamSize) limits() topology.Limits { return topology.Limits{MaxBytes: int64(s.MaxBytes)} }

type streamLimits struct {
	MaxBytes byteSize `json:"maxBytes"`
	MaxAge   age      `json:"maxAge"`
}

func (s streamLimits) limits() topology.Limits {
	return topology.Limits{MaxBytes: int64(s.MaxBytes), MaxAge: time.Duration(s.MaxAge)}
}

type snapshotLimits struct {
	streamLimits // of each partition; the age since the last record of the session

	Bucket string `json:"bucket"` // that all processes use, if it is not the one of PREFIX
}

// readStreams reads the file of streams. Without one all members are missing.
func (c config) readStreams() (streamsFile, error) {
	var f streamsFile
	if c.Streams == "" {
		return f, nil
	}
	err := readSettings(c.Streams, &f)
	if err == nil && f.Snapshots.Bucket != "" {
		err = subjects.CheckToken("snapshots.bucket", f.Snapshots.Bucket)
	}
	if err != nil {
		return f, fmt.Errorf("streams %s: %w", c.Streams, err)
	}
	return f, nil
}

// topology returns what every process requires of the streams. Their sizes and ages are not part of it.
func (c config) topology() topology.Config {
	return topology.Config{Layout: c.layout(), Replicas: c.Replicas, Republish: c.Feed == feedInterest}
}

// newStreams returns the configuration with which streams are created.
func (c config) newStreams() topology.Config {
	t, f := c.topology(), c.streams
	t.Log = topology.Limits{MaxBytes: int64(f.Log.MaxBytes), MaxAge: c.MaxAge}
	t.Commands, t.Deadlines, t.Inbox, t.Credentials, t.Usage = f.Commands.limits(), f.Deadlines.limits(), f.Inbox.limits(), f.Credentials.limits(), f.Usage.limits()
	t.Snapshots, t.Objects, t.DeadLetters, t.Audit = f.Snapshots.limits(), f.Objects.limits(), f.DeadLetters.limits(), f.Audit.limits()
	t.Placement = f.Placement
	return t
}

// byteSize is a size in a file: "64MiB", or "unlimited". 0 is the default.
type byteSize int64

var byteUnits = []struct {
	name string
	size float64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1}}

// UnmarshalText parses a size.
func (b *byteSize) UnmarshalText(text []byte) error {
	if string(text) == unlimited {
		*b = topology.Off
		return nil
	}
	for _, unit := range byteUnits {
		number, ok := strings.CutSuffix(string(text), unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if size := n * unit.size; err == nil && size >= 1 && size < 1<<62 {
			*b = byteSize(size)
			return nil
		}
		break
	}
	return fmt.Errorf("%q, want a size such as 512MiB or 1.5TiB, or unlimited", text)
}

// age is an age in a file: "36h", days: "30d", or "unlimited". 0 is the default.
type age time.Duration

// UnmarshalText parses an age.
func (a *age) UnmarshalText(text []byte) error {
	if string(text) == unlimited {
		*a = topology.Off
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if number, ok := strings.CutSuffix(string(text), "d"); ok {
		var days float64
		days, err = strconv.ParseFloat(number, 64)
		d = time.Duration(days * float64(24*time.Hour))
	}
	if err != nil || d <= 0 {
		return fmt.Errorf("%q, want an age such as 36h or 30d, or unlimited", text)
	}
	*a = age(d)
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/topology"
)

// checkStreams checks the account, and each stream and bucket.
func (d *doctor) checkStreams(ctx context.Context) {
	d.checkAccount(ctx)
	asking, cancel := context.WithTimeout(ctx, doctorTimeout)
	diffs, err := topology.Differences(asking, d.js, d.cfg.newStreams())
	cancel()
	if err != nil {
		d.report(finding{Level: levelProblem, Check: "stream", Text: err.Error()})
	}
	for _, diff := range diffs {
		d.report(findingOf(diff))
	}
	streams, err := topology.Streams(d.cfg.newStreams())
	if err != nil {
		return // Differences has returned it
	}
	for _, s := range streams {
		d.checkStream(ctx, s)
	}
}

// findingOf returns a difference as a finding.
func findingOf(diff topology.Difference) finding {
	f := finding{Check: "setting", Object: diff.Stream, Text: diff.Setting + " is " + diff.Got + ", want " + diff.Want, Remedy: diff.Remedy}
	if diff.Setting == "" {
		f.Check, f.Text = "stream", diff.Got+", want "+diff.Want
	}
	if diff.Risk != "" {
		f.Remedy += "; otherwise " + diff.Risk
	}
	switch diff.Class {
	case topology.Accepted:
		f.Level, f.Remedy = levelNote, ""
	case topology.Stricter:
		f.Level = levelWarning
	case topology.Breaks:
		f.Level = levelProblem
	}
	return f
}

// almostFull is the used part of a limit from which on it is a warning.
const almostFull = 0.9

// checkAccount reports the storage of the account.
func (d *doctor) checkAccount(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	info, err := d.js.AccountInfo(ctx)
	if err != nil {
		d.report(finding{Level: levelProblem, Check: "account", Text: "JetStream: " + err.Error()})
		return
	}
	tiers := map[string]jetstream.Tier{"": info.Tier}
	if len(info.Tiers) > 0 {
		tiers = info.Tiers
	}
	for name, tier := range tiers {
		f := finding{Level: levelOK, Check: "account", Object: name, Text: space(tier.Store, tier.Limits.MaxStore)}
		d.account = f.Text
		if isAlmostFull(tier.Store, tier.Limits.MaxStore) {
			f.Level, f.Remedy = levelWarning, "raise the limit of the account"
		}
		d.report(f)
	}
}

// space returns the use of a limit, which is not positive if there is none.
func space(used uint64, limit int64) string {
	if limit <= 0 {
		return fmt.Sprintf("%d bytes in use, no limit", used)
	}
	return fmt.Sprintf("%d bytes in use, %d free", used, max(0, limit-int64(min(used, uint64(limit)))))
}

func isAlmostFull(used uint64, limit int64) bool {
	return limit > 0 && float64(used) > almostFull*float64(limit)
}

// checkStream checks one stream. A missing one was reported by Differences.
func (d *doctor) checkStream(ctx context.Context, want jetstream.StreamConfig) {
	ctx, cancel := context.WithTimeout(ctx, 3*doctorTimeout)
	defer cancel()
	var asked, answered time.Time
	stream, err := jsclient.Retry(ctx, jsclient.Policy{For: doctorTimeout}, func(ctx context.Context) (jetstream.Stream, error) {
		asked = time.Now()
		defer func() { answered = time.Now() }()
		return d.js.Stream(ctx, want.Name)
	})
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return
	case err != nil:
		d.report(finding{
			Level: levelProblem, Check: "leader", Object: want.Name, Text: err.Error(),
			Remedy: "the stream has no leader, or this user may not publish to $JS.API.STREAM.INFO." + want.Name,
		})
		return
	}
	info := stream.CachedInfo()
	d.checkClock(info, asked, answered)
	d.checkReplicas(want.Name, info.Cluster)
	d.checkSpace(info)
	d.checkStorage(ctx, want, isAlmostFull(info.State.Bytes, info.Config.MaxBytes))
	d.checkDurables(ctx, stream)
}

func (d *doctor) checkReplicas(name string, cluster *jetstream.ClusterInfo) {
	if cluster == nil || len(cluster.Replicas) == 0 {
		return
	}
	if cluster.Leader == "" {
		d.report(finding{Level: levelProblem, Check: "leader", Object: name, Text: "no leader", Remedy: "start the servers that are missing"})
	}
	for _, peer := range cluster.Replicas {
		switch {
		case peer.Offline:
			d.report(finding{Level: levelWarning, Check: "replicas", Object: name, Text: peer.Name + " is offline", Remedy: "start it"})
		case !peer.Current:
			d.report(finding{Level: levelWarning, Check: "replicas", Object: name, Text: fmt.Sprintf("%s is %d operations late", peer.Name, peer.Lag)})
		}
	}
}

func (d *doctor) checkSpace(info *jetstream.StreamInfo) {
	f := finding{Level: levelOK, Check: "space", Object: info.Config.Name, Text: fmt.Sprintf("%d messages, %s", info.State.Msgs, space(info.State.Bytes, info.Config.MaxBytes))}
	if info.Config.Discard == jetstream.DiscardNew && isAlmostFull(info.State.Bytes, info.Config.MaxBytes) {
		f.Level, f.Remedy = levelWarning, "raise max bytes: a full stream refuses messages"
	}
	d.report(f)
}

// checkStorage checks that a stream stores messages. Without space in the account no stream does, so that is one finding, unless the stream is full itself.
func (d *doctor) checkStorage(ctx context.Context, want jetstream.StreamConfig, isFull bool) {
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	err := d.api.CheckStorage(ctx, want.Name, want.Subjects[0])
	if err == nil {
		return
	}
	f := finding{Level: levelProblem, Check: "storage", Object: want.Name, Text: err.Error(), Remedy: "free space or raise the limit; writes succeed then"}
	_, writeError := errors.AsType[*jsclient.WriteError](err)
	switch {
	case writeError:
		f.Remedy = "free space, then restart nats-server"
	case errors.Is(err, nats.ErrPermissionViolation):
		f.Level, f.Remedy = levelWarning, "this user may not ask whether messages are stored"
	case errors.Is(err, chunk.ErrNoStorage) && !isFull:
		if d.full {
			return
		}
		d.full = true
		f.Text += "; the account has " + d.account
		f.Remedy = "free space, or raise max_file_store of nats-server or the limit of the account; other streams without storage are not listed"
	case !errors.Is(err, chunk.ErrNoStorage):
		f.Remedy = "the server does not respond to writes of this stream, or this user may not publish to its subjects"
	}
	d.report(f)
}

// checkDurables checks that each durable consumer has a reader, and that the ones that readers create exist.
func (d *doctor) checkDurables(ctx context.Context, stream jetstream.Stream) {
	name, layout := stream.CachedInfo().Config.Name, d.cfg.layout()
	projected := false
	list := stream.ListConsumers(ctx)
	for info := range list.Info() {
		if info.Config.Durable == "" {
			continue
		}
		projected = projected || info.Config.Durable == jssnapshots.Durable
		f := finding{Level: levelOK, Check: "durable", Object: name, Text: fmt.Sprintf("%s: %d messages not delivered, %d not acknowledged", info.Config.Durable, info.NumPending, info.NumAckPending)}
		if info.NumPending > 0 && info.NumWaiting == 0 && isIdle(info) {
			f.Level, f.Remedy = levelWarning, "no client reads: start one, or delete the consumer"
			if info.Config.Durable == jssnapshots.Durable {
				f.Level, f.Remedy = levelProblem, "start a projector: snapshots and lists of sessions are not updated"
			}
		}
		d.report(f)
		if info.Config.Durable == jssnapshots.Durable {
			d.checkLag(ctx, stream, info)
		}
	}
	if err := list.Err(); err != nil {
		d.report(finding{Level: levelWarning, Check: "durable", Object: name, Text: "consumers not listed: " + err.Error()})
		return
	}
	for p := range layout.PartitionCount() {
		if name == layout.Stream(p) && !projected {
			f := finding{Level: levelWarning, Check: "durable", Object: name, Text: "no consumer " + jssnapshots.Durable, Remedy: "start a projector: snapshots and lists of sessions are not updated"}
			if stream.CachedInfo().State.Msgs > 0 {
				f.Level = levelProblem
			}
			d.report(f)
		}
	}
	if msgs := stream.CachedInfo().State.Msgs; name == names.Layout(layout).CommandStream() && msgs > 0 && stream.CachedInfo().State.Consumers == 0 {
		d.report(finding{Level: levelWarning, Check: "durable", Object: name, Text: fmt.Sprintf("%d commands wait and no worker has read any", msgs), Remedy: "start workers"})
	}
}

// isIdle reports whether a consumer has delivered nothing for a time in which a reader would have asked again.
func isIdle(info *jetstream.ConsumerInfo) bool {
	return info.Delivered.Last == nil || time.Since(*info.Delivered.Last) > 30*time.Second
}

// maxClockSkew is the difference of two clocks from which on it is a warning. Tokens are verified with a tolerance of the same order, and delays that metrics show
// are differences of two clocks.
const maxClockSkew = time.Second

// checkClock compares the clock of the server that leads a stream with the one of this host. The server has read its clock between the request and the response.
// A clock that is right for one stream is not reported for each.
func (d *doctor) checkClock(info *jetstream.StreamInfo, asked, answered time.Time) {
	if info.TimeStamp.IsZero() {
		return
	}
	var skew time.Duration // at least
	switch {
	case info.TimeStamp.Before(asked):
		skew = info.TimeStamp.Sub(asked)
	case info.TimeStamp.After(answered):
		skew = info.TimeStamp.Sub(answered)
	}
	f := finding{Level: levelOK, Check: "clock", Object: info.Config.Name, Text: "differs by less than " + maxClockSkew.String()}
	if skew.Abs() > maxClockSkew {
		f.Level, f.Text = levelWarning, fmt.Sprintf("the clock of the server differs by %s from this host", skew.Round(time.Millisecond))
		f.Remedy = "synchronize the clocks: tokens, deadlines, retention and delays in metrics depend on them"
	} else if d.clockShown {
		return
	}
	d.clockShown = true
	d.report(f)
}

// checkLag compares the age of the first record that no snapshot contains with the retention of the log: what expires before it is saved is lost to snapshots.
func (d *doctor) checkLag(ctx context.Context, stream jetstream.Stream, durable *jetstream.ConsumerInfo) {
	info := stream.CachedInfo()
	if durable.NumPending == 0 && durable.NumAckPending == 0 || d.cfg.MaxAge == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	m, err := d.api.Next(ctx, info.Config.Name, ">", durable.AckFloor.Stream+1)
	if errors.Is(err, jsclient.ErrNotFound) {
		return // saved meanwhile
	}
	if err != nil {
		d.report(finding{Level: levelWarning, Check: "lag", Object: info.Config.Name, Text: "first unsaved record not read: " + err.Error()})
		return
	}
	age := max(0, info.TimeStamp.Sub(m.Stored))
	f := finding{Level: levelOK, Check: "lag", Object: info.Config.Name, Text: fmt.Sprintf("first unsaved record is %s old, retention is %s", age.Round(time.Second), d.cfg.MaxAge)}
	if age > d.cfg.MaxAge/2 {
		f.Level = levelWarning
		f.Remedy = "start projectors, read why one does not save (`session projection failed`), or raise max-age: records that expire unsaved are lost to snapshots"
	}
	d.report(f)
}

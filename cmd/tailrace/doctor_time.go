package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
)

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

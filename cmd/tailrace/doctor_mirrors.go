package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/topology"
)

// checkMirrors compares each mirror with its stream, if there are mirrors.
func (d *doctor) checkMirrors(ctx context.Context) {
	if d.cfg.MirrorDomain == "" {
		return
	}
	local, err := newJetStream(d.nc, d.cfg.MirrorDomain)
	if err != nil {
		d.report(finding{Level: levelProblem, Check: "mirror", Text: err.Error()})
		return
	}
	mirrors := jsclient.New(local)
	for _, name := range topology.Mirrored(d.cfg.layout()) {
		asking, cancel := context.WithTimeout(ctx, doctorTimeout)
		d.checkMirror(asking, mirrors, name)
		cancel()
	}
}

func (d *doctor) checkMirror(ctx context.Context, mirrors *jsclient.Client, name string) {
	const create = "run `tailrace mirror`"
	f := finding{Level: levelProblem, Check: "mirror", Object: name}
	have, err := mirrors.State(ctx, name, "")
	var origin jsclient.State
	if err == nil {
		origin, err = d.api.State(ctx, name, "")
	}
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		f.Text, f.Remedy = "is missing", create
	case err != nil:
		f.Text = err.Error()
	case have.Epoch != origin.Epoch:
		f.Text, f.Remedy = fmt.Sprintf("has the epoch %s, the stream has %s", have.Epoch, origin.Epoch), create+", which creates it again"
	default:
		f.Level, f.Text = levelOK, fmt.Sprintf("ends at %d, the stream at %d", have.Last, origin.Last)
	}
	d.report(f)
}

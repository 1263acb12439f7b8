// Package runs assembles the logic of sessions, a conversation.Service, over NATS.
//
//	service, err := runs.New(js, runs.Config{Config: conversation.Config{AgentTypes: []string{"search"}}})
//	session := chunk.RootSession("default", "s-1")
//	run, refusal := service.Start(ctx, conversation.StartRequest{Session: session, AgentType: "search", Input: []chunk.InputMessage{{Content: "parcels to Oslo"}}})
//	status, refusal := service.Status(ctx, session)
package runs

import (
	"cmp"
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/jsvalues"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/subjects"
	"github.com/tailrace/tailrace/workers"
)

// Config configures a Service. AgentTypes is required.
type Config struct {
	// Config is that of the Service. Its MaxSessionBytes is that of producers.Config, with its default; producers.Off is unlimited.
	conversation.Config

	// Layout names subjects, streams and buckets. All programs of one Tailrace share it.
	Layout subjects.Layout

	// Reaper ends runs that no worker ends: stopped ones that are queued, and abandoned ones. Defaults to one with the default settings.
	Reaper *workers.Reaper

	// MaxRuns, if not nil, returns how many runs a tenant may have at a time, queued and in progress, of all workers and with those of sub-agents; 0 is
	// unlimited. Another one is refused with ReasonTooManyRuns; sub-agents and runs that continue are not. Requests at the same time may exceed it.
	MaxRuns func(tenant string) int
}

// New returns a Service over js. It sends nothing to the server and starts no goroutine; the streams and buckets must exist when the Service is used (package
// topology creates them).
func New(js jetstream.JetStream, cfg Config) (*conversation.Service, error) {
	queue, noQueue := jscontrol.NewQueue(js, jscontrol.QueueConfig{Layout: cfg.Layout, MaxRuns: cfg.MaxRuns, Log: cfg.Log})
	inbox, noInbox := jscontrol.NewInbox(js, jscontrol.InboxConfig{Layout: cfg.Layout})
	store, noStore := jssnapshots.New(js, jssnapshots.Config{Layout: cfg.Layout, Log: cfg.Log})
	reader, noReader := consumers.New(js, consumers.Config{Layout: cfg.Layout, Log: cfg.Log})
	err := cmp.Or(noQueue, noInbox, noStore, noReader)
	if err == nil && cfg.Reaper == nil {
		cfg.Reaper, err = workers.NewReaper(js, workers.ReaperConfig{Layout: cfg.Layout, Log: cfg.Log})
	}
	if err != nil {
		return nil, fmt.Errorf("runs: %w", err)
	}
	snapshots, stored := projector.NewReader(store, reader), jsvalues.New(jsclient.New(js), cfg.Layout)
	forks := forks{Reader: snapshots, Store: stored, index: store, open: func() (*producers.Producer, error) {
		return producers.New(js, producers.Config{Layout: cfg.Layout, Positions: snapshots, Log: cfg.Log})
	}}
	cfg.MaxSessionBytes = cmp.Or(cfg.MaxSessionBytes, producers.DefaultSessionBytes)
	service, err := conversation.New(conversation.Ports{Snapshots: snapshots, Queue: queue, Inbox: inbox, Reaper: cfg.Reaper, Values: stored, Forks: forks}, cfg.Config)
	if err != nil {
		return nil, fmt.Errorf("runs: %w", err)
	}
	return service, nil
}

// forks implements conversation.Forks.
type forks struct {
	*projector.Reader
	*jsvalues.Store

	index *jssnapshots.Store
	open  func() (*producers.Producer, error)
}

// Fork implements conversation.Forks. A deletion of the origin finds the fork by its key, or has ended the origin when its head is read.
func (f forks) Fork(ctx context.Context, of, s chunk.Session, records []chunk.Chunk) (bool, error) {
	if err := f.index.AddFork(ctx, of, s); err != nil {
		return false, err
	}
	if _, err := f.Head(ctx, of); err != nil {
		return false, err
	}
	p, err := f.open()
	if err != nil {
		return false, err
	}
	defer p.Close() //nolint:errcheck // it has no run
	return p.Fork(ctx, s, records)
}

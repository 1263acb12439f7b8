// Package runs starts, answers, stops, resumes and reads runs of agents from Go programs, without HTTP.
//
//	client, err := runs.New(js, runs.Config{AgentTypes: []string{"search"}})
//	session := chunk.RootSession("default", "s-1")
//	run, err := client.Start(ctx, runs.Start{Session: session, AgentType: "search", Input: []chunk.InputMessage{{Content: "parcels to Oslo"}}})
//	status, err := client.Status(ctx, session)
//
// All calls may be repeated: the id of a run is a function of the request. A request becomes a command on the queue, or an answer or a stop request in an inbox;
// a worker (package workers) does the rest. Package consumers follows the records of a session.
//
// Every error is an *Error; one whose context ended has ReasonUnavailable or ReasonContended. Is of an *Error reports chunk.ErrUnknownSession,
// chunk.ErrInvalid or chunk.ErrTooLarge for the reasons of that meaning. Answer stores the answer even if the context ends meanwhile.
package runs

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/control"
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

// Config configures a Client. AgentTypes is required.
type Config struct {
	// AgentTypes are those that may be started.
	AgentTypes []string

	// Layout names subjects, streams and buckets. All programs of one Tailrace share it.
	Layout subjects.Layout

	// RequestTimeout bounds one answer of a user, or one request of a surface of an edge until its stream begins. It is longer than a queue and an inbox
	// need to find out whether something was stored. Defaults to 15 seconds.
	RequestTimeout time.Duration

	// Reaper ends runs that no worker ends: stopped ones that are queued, and abandoned ones. Defaults to one with the default settings.
	Reaper *workers.Reaper

	// Storage, if not nil, returns why nothing can be stored for a session at present, a chunk.ErrNoStorage. Requests and answers are refused with
	// ReasonNoStorage then, before they are stored.
	Storage func(chunk.Session) error

	// Audit writes an event into the audit log for each message, answer and stop of the Client, before the method returns. Defaults to false: a program
	// with access to NATS can write any event, so its events are only as reliable as the program.
	Audit bool

	// AuditLog is for the edge of this module, which records what it serves without a wait. Defaults to nil.
	AuditLog *audit.Log

	// MaxRuns, if not nil, returns how many runs a tenant may have at a time, queued and in progress, of all workers and with those of sub-agents; 0 is
	// unlimited. Another one is refused with ReasonTooManyRuns; sub-agents and runs that continue are not. Requests at the same time may exceed it.
	MaxRuns func(tenant string) int

	// MaxSessionBytes is that of producers.Config, with its default: a message to a session that has reached it is refused with ReasonFull. producers.Off is unlimited.
	MaxSessionBytes int64

	// Log receives errors of the server. Defaults to none.
	Log *slog.Logger
}

// Client may be used by many goroutines. It starts none.
type Client struct {
	service   *conversation.Service
	snapshots *projector.Reader
}

// New returns a Client over js. It sends nothing to the server; the streams and buckets must exist when the Client is used (package topology creates them).
func New(js jetstream.JetStream, cfg Config) (*Client, error) {
	queue, noQueue := jscontrol.NewQueue(js, jscontrol.QueueConfig{Layout: cfg.Layout, MaxRuns: cfg.MaxRuns, Log: cfg.Log})
	inbox, noInbox := jscontrol.NewInbox(js, jscontrol.InboxConfig{Layout: cfg.Layout})
	store, noStore := jssnapshots.New(js, jssnapshots.Config{Layout: cfg.Layout, Log: cfg.Log})
	reader, noReader := consumers.New(js, consumers.Config{Layout: cfg.Layout, Log: cfg.Log})
	err := cmp.Or(noQueue, noInbox, noStore, noReader)
	if err != nil {
		return nil, fmt.Errorf("runs: %w", err)
	}
	reaper := cfg.Reaper
	if reaper == nil {
		if reaper, err = workers.NewReaper(js, workers.ReaperConfig{Layout: cfg.Layout, Log: cfg.Log}); err != nil {
			return nil, fmt.Errorf("runs: %w", err)
		}
	}
	log := cfg.AuditLog
	if log == nil && cfg.Audit {
		store, err := jscontrol.NewAudit(js, cfg.Layout)
		if err != nil {
			return nil, fmt.Errorf("runs: %w", err)
		}
		log = audit.New(audit.Config{Store: store, Mode: audit.Sync, Log: cfg.Log})
	}
	snapshots, stored := projector.NewReader(store, reader), jsvalues.New(jsclient.New(js), cfg.Layout)
	forks := forks{Reader: snapshots, Store: stored, index: store, open: func() (*producers.Producer, error) {
		return producers.New(js, producers.Config{Layout: cfg.Layout, Positions: snapshots, Log: cfg.Log})
	}}
	service, err := conversation.New(conversation.Ports{Snapshots: snapshots, Queue: queue, Inbox: inbox, Reaper: reaper, Values: stored, Forks: forks},
		conversation.Config{AgentTypes: cfg.AgentTypes, RequestTimeout: cfg.RequestTimeout, Storage: cfg.Storage, Audit: log, Log: cfg.Log,
			MaxSessionBytes: cmp.Or(cfg.MaxSessionBytes, producers.DefaultSessionBytes)})
	if err != nil {
		return nil, fmt.Errorf("runs: %w", err)
	}
	return &Client{service: service, snapshots: snapshots}, nil
}

// As returns a Client whose requests are made by a user or program: the log, the inbox and the audit log have it with each message, answer and stop. The
// first one that starts a session is its owner. It does not limit what the Client may do.
func (c *Client) As(by chunk.Principal) *Client {
	return &Client{service: c.service.As(conversation.Caller{By: &by}), snapshots: c.snapshots}
}

// Service returns the logic of the Client, for packages chat and agentserver.
func (c *Client) Service() *conversation.Service { return c.service }

// Snapshots returns a reader of fresh snapshots and pages of messages.
func (c *Client) Snapshots() *projector.Reader { return c.snapshots }

// Start is the one run of a new session.
type Start struct {
	Session   chunk.Session
	AgentType string
	Input     []chunk.InputMessage
	Params    chunk.Value // any JSON that the agent understands; the zero Value is null
}

// Start requests the run and returns its id, which is a function of the session. A session that is running or paused is returned as it is.
func (c *Client) Start(ctx context.Context, s Start) (run string, err error) {
	run, r := c.service.Start(ctx, conversation.StartRequest(s))
	return run, errorOf(s.Session, r)
}

// Resume requests a run that continues one which was interrupted, and returns its id. Without input it may be repeated, and returns a run that is in progress
// or waits for answers as it is; with input it is refused then.
func (c *Client) Resume(ctx context.Context, id chunk.Session, input ...chunk.InputMessage) (run string, err error) {
	key, r := conversation.ResumeKey(input)
	if r == nil {
		run, r = c.service.Resume(ctx, conversation.ResumeRequest{Session: id, Input: input, Key: key})
	}
	return run, errorOf(id, r)
}

// Answer is an answer to one call.
type Answer struct {
	CallID string

	// ApprovalID, Approved and Reason are of an answer to an approval request.
	ApprovalID string
	Approved   bool
	Reason     string

	// ShownInput, if not empty, is the input of the call that the user was shown. The approval is refused with ReasonWrongInput if the call has another one.
	ShownInput chunk.Value

	// Result is that of a client tool, Error why there is none. One of them is set; the zero Result is null.
	Result chunk.Value
	Error  *string
}

// Answer stores an answer, and requests the resume of the run if it was the last one that the run waits for. Of several answers to one call the first counts:
// the others get an *Error with ReasonAnswered, or ReasonExpired if the deadline of the call had passed, and the answer that counts in First.
func (c *Client) Answer(ctx context.Context, id chunk.Session, a Answer) error {
	submitted := control.Answer{Kind: control.ClientResult, CallID: a.CallID, ApprovalID: a.ApprovalID, Approved: a.Approved, Reason: a.Reason, Result: a.Result}
	if a.Error != nil {
		submitted.Error, submitted.ErrorCode = *a.Error, control.CodeToolFailed
	}
	if a.ApprovalID != "" {
		submitted.Kind, submitted.InputHash = control.Approval, control.ShownHash(a.ShownInput)
	}
	return errorOf(id, c.service.Answer(ctx, id, "", submitted))
}

// Stop requests that the latest run of a session stops, and returns that run. nil: the request is stored, and takes effect also if the worker fails.
func (c *Client) Stop(ctx context.Context, id chunk.Session, kind control.StopKind, reason string) (run string, err error) {
	run, r := c.service.Stop(ctx, id, kind, reason)
	return run, errorOf(id, r)
}

// Status returns the state of a session.
func (c *Client) Status(ctx context.Context, id chunk.Session) (conversation.Status, error) {
	st, r := c.service.Status(ctx, id)
	return st, errorOf(id, r)
}

// Error is a refusal.
type Error struct {
	Session chunk.Session
	Reason  conversation.Reason
	Text    string  // "" or what is wrong with the request
	First   *Answer // of ReasonAnswered and ReasonExpired: the answer that counts
}

func (e *Error) Error() string {
	text := fmt.Sprintf("session %s: %s", e.Session, e.Reason)
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

// Is reports the error of package chunk that e means.
func (e *Error) Is(target error) bool {
	switch e.Reason {
	case conversation.ReasonNoSession:
		return target == chunk.ErrUnknownSession
	case conversation.ReasonInvalid, conversation.ReasonUnstorable:
		return target == chunk.ErrInvalid
	case conversation.ReasonTooLarge:
		return target == chunk.ErrTooLarge
	}
	return false
}

func errorOf(id chunk.Session, r *conversation.Refusal) error {
	if r == nil {
		return nil
	}
	e := &Error{Session: id, Reason: r.Reason, Text: r.Text}
	if first := r.First; first != nil {
		e.First = &Answer{CallID: first.CallID, ApprovalID: first.ApprovalID, Approved: first.Approved, Reason: first.Reason, Result: first.Result}
		if first.Failed() {
			text := cmp.Or(first.Error, first.ErrorCode)
			e.First.Error = &text
		}
	}
	return e
}

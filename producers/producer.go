package producers

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
)

// Producer starts runs over one NATS connection, which it does not own. Its methods may be called concurrently. It owns one goroutine and one subscription
// for the responses to all its runs; Close ends them.
type Producer struct {
	cfg       Config
	client    *jsclient.Client
	publisher *jsclient.Publisher

	mu     sync.Mutex // guards the fields below
	runs   map[*Run]struct{}
	closed bool
}

// New returns a Producer over the connection of js, with its API prefix or domain. It does not call the server. The error names the wrong field of cfg.
func New(js jetstream.JetStream, cfg Config) (*Producer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if js == nil {
		return nil, errors.New("js is nil, want a JetStream")
	}
	client := jsclient.New(js)
	publisher, err := jsclient.NewPublisher(client, cfg.AttemptTimeout)
	if err != nil {
		return nil, err
	}
	return &Producer{cfg: cfg, client: client, publisher: publisher, runs: map[*Run]struct{}{}}, nil
}

// addRun registers r until it is closed.
func (p *Producer) addRun(r *Run) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	r.producer = p
	p.runs[r] = struct{}{}
	return nil
}

func (p *Producer) removeRun(r *Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.runs, r)
}

// Close closes all runs and then the Producer, but not the connection. The error joins the errors of the runs. A second Close returns nil.
func (p *Producer) Close() error {
	p.mu.Lock()
	p.closed = true
	runs := slices.Collect(maps.Keys(p.runs))
	p.mu.Unlock()
	errs := make([]error, 0, len(runs)+1)
	for _, r := range runs {
		errs = append(errs, r.Close())
	}
	return errors.Join(append(errs, p.publisher.Close())...)
}

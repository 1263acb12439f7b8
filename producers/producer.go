package producers

import (
	"errors"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Producer starts runs over one NATS connection, which it does not own. Its
// methods may be called from many goroutines. It owns one goroutine and one
// subscription, for the answers to all its runs; Close ends them.
type Producer struct {
	cfg  Config
	link *link
	js   jetstream.JetStream

	mu     sync.Mutex // guards the fields below
	runs   map[*Run]struct{}
	closed bool
}

// New makes a Producer on nc. js gives access to the streams and must be made
// of nc; its API prefix or domain is used.
func New(nc *nats.Conn, js jetstream.JetStream, cfg Config) (*Producer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if nc == nil || js == nil {
		return nil, errors.New("want a connection and its JetStream")
	}
	if js.Conn() != nc {
		return nil, errors.New("the JetStream is of another connection")
	}
	l, err := newLink(nc, js, cfg)
	if err != nil {
		return nil, err
	}
	return &Producer{cfg: cfg, link: l, js: js, runs: map[*Run]struct{}{}}, nil
}

// adopt keeps r until it is closed.
func (p *Producer) adopt(r *Run) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	r.producer = p
	p.runs[r] = struct{}{}
	return nil
}

func (p *Producer) forget(r *Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.runs, r)
}

// Close closes all runs and then the Producer; the connection stays. The error
// joins those of the runs. A second Close returns nil.
func (p *Producer) Close() error {
	p.mu.Lock()
	p.closed = true
	runs := make([]*Run, 0, len(p.runs))
	for r := range p.runs {
		runs = append(runs, r)
	}
	p.mu.Unlock()
	errs := make([]error, 0, len(runs)+1)
	for _, r := range runs {
		errs = append(errs, r.Close())
	}
	return errors.Join(append(errs, p.link.close())...)
}

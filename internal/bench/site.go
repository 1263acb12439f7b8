package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/authn"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/subjects"
)

// siteVariable marks a process that runs one server or one edge, which its value names. The process reads its specification, writes its address, and then its
// processor time for each line that it reads.
const siteVariable = "TRTEST_BENCH_SITE"

// The values of siteVariable.
const (
	siteServer = "server" // reads a serverSpec
	siteEdge   = "edge"   // reads an edgeSpec
)

// siteReport is a line from such a process.
type siteReport struct {
	Address   string        `json:"address"`   // where it serves
	Processor time.Duration `json:"processor"` // used so far
	Error     string        `json:"error,omitempty"`
}

// site is a process with one server or one edge.
type site struct {
	*child

	address string
}

// startSite starts a process. It serves when await has returned.
func startSite(ctx context.Context, what string, spec any) (*site, error) {
	c, err := startChild(ctx, siteVariable+"="+what)
	if err != nil {
		return nil, err
	}
	if err := json.NewEncoder(c.in).Encode(spec); err != nil {
		return nil, errors.Join(err, c.wait(true))
	}
	return &site{child: c}, nil
}

func (s *site) await() error {
	r, err := s.next()
	s.address = r.Address
	return err
}

// processor returns the processor time of the process so far.
func (s *site) processor() (time.Duration, error) {
	if _, err := io.WriteString(s.in, "usage\n"); err != nil {
		return 0, err
	}
	r, err := s.next()
	return r.Processor, err
}

func (s *site) next() (r siteReport, err error) {
	if err = s.out.Decode(&r); err == nil && r.Error != "" {
		err = errors.New(r.Error)
	}
	if err != nil {
		err = fmt.Errorf("process of a server or an edge: %w", err)
	}
	return r, err
}

// runSite runs a server or an edge until in ends.
func runSite(ctx context.Context, what string, in io.Reader, out io.Writer) error {
	report := json.NewEncoder(out)
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return lines.Err()
	}
	address, stop, err := serveSite(ctx, what, lines.Bytes())
	if err != nil {
		return report.Encode(siteReport{Error: err.Error()})
	}
	defer stop()
	for {
		used, err := processorTime()
		if err == nil {
			err = report.Encode(siteReport{Address: address, Processor: used})
		}
		if err != nil || !lines.Scan() {
			return errors.Join(err, lines.Err())
		}
	}
}

func serveSite(ctx context.Context, what string, spec []byte) (address string, stop func(), err error) {
	switch what {
	case siteServer:
		var s serverSpec
		if err := json.Unmarshal(spec, &s); err != nil {
			return "", nil, err
		}
		return s.serve(ctx)
	case siteEdge:
		var s edgeSpec
		if err := json.Unmarshal(spec, &s); err != nil {
			return "", nil, err
		}
		return s.serve(ctx)
	}
	return "", nil, fmt.Errorf("unknown process %q", what)
}

// edgeSpec is the specification of an edge.
type edgeSpec struct {
	NATS       string `json:"nats"` // URL of a server
	Prefix     string `json:"prefix"`
	Partitions int    `json:"partitions"`
}

func (s edgeSpec) serve(ctx context.Context) (address string, stop func(), err error) {
	nc, js, err := dial(s.NATS)
	if err != nil {
		return "", nil, err
	}
	quiet, layout := slog.New(slog.DiscardHandler), subjects.Layout{Prefix: s.Prefix, Partitions: s.Partitions}
	reader, err := consumers.New(js, consumers.Config{Layout: layout, Log: quiet})
	if err != nil {
		return "", nil, err
	}
	store, err := jssnapshots.New(js, jssnapshots.Config{Layout: layout})
	if err != nil {
		return "", nil, err
	}
	cfg := httpedge.Config{Layout: layout, Log: quiet}
	if cfg.Authenticator, err = authn.NewNone("default"); err != nil {
		return "", nil, err
	}
	made, err := httpedge.New(reader, projector.NewReader(store, reader), cfg)
	if err != nil {
		return "", nil, err
	}
	served, err := serveEdge(ctx, made)
	if err != nil {
		return "", nil, err
	}
	return served.addr, func() {
		_ = served.close() // everything is delivered, or the load clients have reported it
		nc.Close()
	}, nil
}

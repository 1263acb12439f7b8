package jsusage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsreader"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/subjects"
)

// maxTokens bounds every number of tokens: the largest integer that all readers of JSON represent exactly. A sum stays there.
const maxTokens = 1<<53 - 1

// maxProcesses bounds the shares in a usage record, which has about 50 bytes for each.
const maxProcesses = 256

// usage is the value of a key: the tokens of a tenant on one day.
//
// It has the share of each process and not only their sum, so that a write can be repeated after any time, and on any server: a process writes the number that it has
// counted, and adds what its share lacks of that. See ADR 0031.
type usage struct {
	Tokens    int64   `json:"tokens"`    // of all processes
	Processes []share `json:"processes"` // the last one was the last to write
}

// share is the part of a process.
type share struct {
	Process string `json:"process"` // a random id
	Tokens  int64  `json:"tokens"`
}

// errMalformed reports a value that is not a usage record, which only a program that is not part of Tailrace writes.
var errMalformed = errors.New("malformed usage record")

func decode(data []byte) (usage, error) {
	var u usage
	if err := json.Unmarshal(data, &u); err != nil {
		return usage{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	isNumber := func(n int64) bool { return n >= 0 && n <= maxTokens }
	if !isNumber(u.Tokens) || len(u.Processes) > maxProcesses || slices.ContainsFunc(u.Processes, func(s share) bool { return !isNumber(s.Tokens) }) {
		return usage{}, fmt.Errorf("%w: %d tokens of %d processes", errMalformed, u.Tokens, len(u.Processes))
	}
	return u, nil
}

// share returns the index of the share of a process, -1 if it has none.
func (u usage) share(process string) int {
	return slices.IndexFunc(u.Processes, func(s share) bool { return s.Process == process })
}

// missing returns how many of the tokens that a process has counted are not in u. stored is the number of those that were in an earlier record. It is used if the
// share of the process has given place to those of maxProcesses others.
func (u usage) missing(process string, counted, stored int64) int64 {
	included := int64(0)
	switch i := u.share(process); {
	case i >= 0:
		included = u.Processes[i].Tokens
	case len(u.Processes) == maxProcesses:
		included = stored
	}
	return max(0, counted-included)
}

// with returns u with all tokens that a process has counted. u is not modified.
func (u usage) with(process string, counted, stored int64) usage {
	next := usage{Tokens: add(u.Tokens, u.missing(process, counted, stored)), Processes: make([]share, 0, len(u.Processes)+1)}
	for _, s := range u.Processes {
		if s.Process != process {
			next.Processes = append(next.Processes, s)
		}
	}
	next.Processes = append(next.Processes, share{Process: process, Tokens: counted})
	next.Processes = next.Processes[max(0, len(next.Processes)-maxProcesses):]
	return next
}

// add adds numbers of tokens. Neither is negative or more than maxTokens.
func add(a, b int64) int64 { return min(maxTokens, a+b) }

// Store is the bucket of used tokens. It owns no resources; its methods may be called concurrently.
type Store struct {
	api    *jsclient.Client
	layout subjects.Layout
}

// NewStore returns a Store over js. It sends no request; the bucket must exist when it is used (package topology creates it).
func NewStore(js jetstream.JetStream, layout subjects.Layout) (*Store, error) {
	if err := layout.Validate(); err != nil {
		return nil, fmt.Errorf("usage: Layout: %w", err)
	}
	return &Store{api: jsclient.New(js), layout: layout}, nil
}

// version is a usage record as it is stored.
type version struct {
	usage

	seq uint64 // 0 if there is none
}

// requestTimeout bounds one write, with its retries, and one read.
const requestTimeout = 5 * time.Second

// conflictBackoff is the delay of a write that was refused, from the second time on. Without it, each of many processes would repeat its write for each write of another one.
var conflictBackoff = wait.Backoff{First: 10 * time.Millisecond, Max: time.Second, Jitter: true}

// read returns the record of a key, the zero version if there is none. The leader responds, so a record is visible once it is stored.
func (s *Store) read(ctx context.Context, key string) (version, error) {
	m, err := s.api.LastRetry(ctx, requestTimeout, s.stream(), s.subject(key))
	switch {
	case errors.Is(err, jsclient.ErrNotFound):
		return version{}, nil
	case err != nil:
		return version{}, err
	}
	u, err := decode(m.Data)
	return version{usage: u, seq: m.Seq}, err
}

// write adds what a process has counted to the record of a key, and returns the record that has all of it. last is the record that the process knows. A write that is
// repeated because its response was lost changes nothing.
func (s *Store) write(ctx context.Context, key string, last version, process string, counted, stored int64) (version, error) {
	for n := 0; last.missing(process, counted, stored) > 0; n++ {
		next := version{usage: last.with(process, counted, stored)}
		data, err := json.Marshal(next.usage)
		if err != nil {
			return last, err
		}
		// Without the name of the stream: Put would ask by a purge whether the server has failed to write it, which no worker may do.
		msg := &nats.Msg{Subject: s.api.PublishSubject(s.subject(key)), Data: data}
		next.seq, err = s.api.Put(ctx, jsclient.Put{Msg: msg, ExpectedSeq: &last.seq, RetryTimeout: requestTimeout})
		if err == nil {
			return next, nil
		}
		if !errors.Is(err, jsclient.ErrConflict) {
			return last, err
		}
		// Another process has written, or an attempt of this one without a response. The first conflict is usual; after it, many processes write.
		if n > 0 && wait.Sleep(ctx, conflictBackoff.Delay(n)) != nil {
			return last, err
		}
		current, err := s.read(ctx, key)
		if err != nil {
			return last, err
		}
		last = current
	}
	return last, nil
}

func (s *Store) stream() string { return "KV_" + names.Layout(s.layout).Usage() }

func (s *Store) subject(key string) string {
	return "$KV." + names.Layout(s.layout).Usage() + "." + key
}

// Entry is what a tenant has used on a day.
type Entry struct {
	Tenant string
	Day    time.Time // its begin in UTC
	Tokens int64

	Key string
	Err error // the record is malformed
}

// List yields the usage of a tenant, of all tenants if it is empty, in the order in which it was last written, and at most one error, last.
func (s *Store) List(ctx context.Context, tenant string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := s.list(ctx, tenant, yield); err != nil {
			yield(Entry{}, fmt.Errorf("usage: %w", err))
		}
	}
}

func (s *Store) list(ctx context.Context, tenant string, yield func(Entry, error) bool) error {
	keys, err := names.UsageKeys(tenant)
	if err != nil {
		return err
	}
	r := jsreader.NewOrdered(s.api, jsreader.OrderedConfig{Stream: s.stream(), Filter: s.subject(keys)})
	for m, err := range r.All(ctx) {
		if err != nil {
			return err
		}
		e := Entry{Key: strings.TrimPrefix(m.Subject, s.subject(""))}
		u, err := decode(m.Data)
		tenant, day, named := names.ParseUsageKey(e.Key)
		if !named {
			err = errMalformed
		}
		if e.Tenant, e.Day, e.Tokens, e.Err = tenant, day, u.Tokens, err; !yield(e, nil) {
			return nil
		}
	}
	return nil
}

package jsvalues

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/values"
)

// Clear removes the bytes of a value, for a process that may not purge; what is left of its pieces is for SweepUploads.
func (st *Store) Clear(ctx context.Context, s chunk.Session, k values.Key) error {
	subject, err := st.subject(s, k)
	if err != nil {
		return err
	}
	state, err := st.list(ctx, subject+".*")
	if err != nil {
		return err
	}
	for piece := range state.Subjects {
		m := nats.NewMsg(piece)
		m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
		if _, err := st.client.Put(ctx, jsclient.Put{Msg: m, Stream: st.stream(), RetryTimeout: retryTimeout}); err != nil {
			return fmt.Errorf("clear value %s: %w", k, err)
		}
	}
	return nil
}

func (st *Store) list(ctx context.Context, filter string) (jsclient.State, error) {
	state, err := jsclient.Retry(ctx, st.client.Reading(retryTimeout), func(ctx context.Context) (jsclient.State, error) {
		return st.client.State(ctx, st.stream(), filter)
	})
	if err != nil {
		return state, fmt.Errorf("list the values of %s: %w", filter, err)
	}
	return state, nil
}

// upload names the files of a message.
type upload struct {
	session chunk.Session
	run     string // as values.UploadsOf returns it
}

// uploads returns the uploads in a list by the subjects of their pieces, and the last sequence of the stream.
func (st *Store) uploads(ctx context.Context, filter string) (all map[string]upload, last uint64, err error) {
	state, err := st.list(ctx, filter)
	all = make(map[string]upload)
	for subject := range state.Subjects {
		s, rest, err := names.Layout(st.layout).ParseValue(subject)
		if tokens := strings.Split(rest, "."); err == nil && len(tokens) == 5 { // otherwise it was not written by this package
			all[subject] = upload{s, tokens[2]}
		}
	}
	return all, state.Last, err
}

// DeleteUploads removes the uploads of a session for some runs.
func (st *Store) DeleteUploads(ctx context.Context, s chunk.Session, runs []string) error {
	of, err := names.Layout(st.layout).Values(s)
	if err != nil {
		return err
	}
	all, last, err := st.uploads(ctx, of+".0.>")
	for subject, u := range all {
		if err == nil && u.isOf(runs) {
			err = st.purge(ctx, subject, last)
		}
	}
	return err
}

func (u upload) isOf(runs []string) bool {
	return slices.ContainsFunc(runs, func(run string) bool { return values.UploadsOf(run) == u.run })
}

// SweepUploads removes the pieces of uploads that were stored before a time, but for those of the runs that wanted returns for their session. A client that sends its message
// again stores all pieces again, and what is stored meanwhile stays: the time of each piece decides on that piece alone.
func (st *Store) SweepUploads(ctx context.Context, before time.Time, wanted func(ctx context.Context, s chunk.Session) (runs []string, err error)) error {
	all, _, err := st.uploads(ctx, names.Layout(st.layout).AllUploads())
	if err != nil {
		return err
	}
	var failed error
	runs := make(map[upload][]string)
	for subject, u := range all {
		m, err := jsclient.Retry(ctx, st.client.Reading(retryTimeout), func(ctx context.Context) (jsclient.Message, error) {
			return st.client.Last(ctx, st.stream(), subject)
		})
		if errors.Is(err, jsclient.ErrNotFound) || err == nil && !m.Stored.Before(before) {
			continue
		}
		of, known := runs[u]
		if err == nil && !known {
			if of, err = wanted(ctx, u.session); err == nil {
				runs[u] = of
			}
		}
		if err == nil && !u.isOf(of) {
			err = st.purge(ctx, subject, m.Seq)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("uploads of %s: %w", u.session, err))
		}
	}
	return failed
}

// purge removes what a piece was up to a sequence.
func (st *Store) purge(ctx context.Context, subject string, upTo uint64) error {
	_, err := st.client.PurgeRetry(ctx, retryTimeout, st.stream(), subject, upTo+1)
	return err
}

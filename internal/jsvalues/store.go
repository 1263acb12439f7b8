// Package jsvalues stores values that are too large for a message in the object bucket. A value has subjects of its session:
//
//	$O.TR_OBJECTS.C.v.<tenant>.<root>.<session>.<epoch>.<type>.<member>.<SHA-256>.<number of the piece>
//
// A piece replaces an earlier one of its subject, which has the same bytes. So writers of the same value do not disturb each other, and a write may be repeated.
// A value has the epoch of the run that writes it. A writer that was fenced by a deletion may still write, under an epoch before that of each later run:
// Delete removes it.
//
// A file of a user is an upload, with the epoch 0, until a run has its message: a deletion may come between the storing of a file and that of its message, which then
// starts the session again, and must have the file. The worker of the run stores it as a value of the run. DeleteUploads and SweepUploads remove uploads.
package jsvalues

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/values"
	"github.com/tailrace/tailrace/subjects"
)

const (
	pieceBytes = 512 << 10

	// maxTenantPieces bounds the values of a tenant: 8 GiB.
	maxTenantPieces = 8 << 30 / pieceBytes

	sizeHeader  = "Tailrace-Bytes"      // size of the value
	mediaHeader = "Tailrace-Media-Type" // media type of the value

	retryTimeout = 10 * time.Second
)

// ErrLimit reports that a tenant has no place for a value, or that the bucket is full.
var ErrLimit = errors.New("the store of large values is full")

// Store reads and writes values. Its methods may be called concurrently.
type Store struct {
	client *jsclient.Client
	layout subjects.Layout
}

// New returns a Store. It does not call the server.
func New(client *jsclient.Client, layout subjects.Layout) *Store { return &Store{client, layout} }

func (st *Store) stream() string { return "OBJ_" + names.Layout(st.layout).Objects() }

// subject returns the subject of the pieces of a value, without the last token.
func (st *Store) subject(s chunk.Session, k values.Key) (string, error) {
	of, err := names.Layout(st.layout).Values(s)
	return of + "." + strings.ReplaceAll(k.String(), "-", "."), err
}

// Put stores a value. The error is ErrLimit if it has no place.
func (st *Store) Put(ctx context.Context, s chunk.Session, k values.Key, mediaType string, data []byte) error {
	subject, err := st.subject(s, k)
	if err != nil {
		return err
	}
	used, err := jsclient.Retry(ctx, st.client.Reading(retryTimeout), func(ctx context.Context) (int, error) {
		return st.client.CountSubjects(ctx, st.stream(), names.Layout(st.layout).TenantValues(s.Tenant))
	})
	if err != nil {
		return fmt.Errorf("size of the values of tenant %s: %w", s.Tenant, err)
	}
	if used+pieces(len(data)) > maxTenantPieces {
		return fmt.Errorf("%w: tenant %s has %d pieces of %d bytes", ErrLimit, s.Tenant, used, pieceBytes)
	}
	for n := range pieces(len(data)) {
		m := nats.NewMsg(subject + "." + strconv.Itoa(n))
		m.Data = data[n*pieceBytes : min(len(data), (n+1)*pieceBytes)]
		m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
		m.Header.Set(sizeHeader, strconv.Itoa(len(data)))
		m.Header.Set(mediaHeader, mediaType)
		_, err := st.client.Put(ctx, jsclient.Put{Msg: m, Stream: st.stream(), RetryTimeout: retryTimeout})
		switch {
		case errors.Is(err, chunk.ErrNoStorage):
			return fmt.Errorf("%w: %w", ErrLimit, err)
		case err != nil:
			return fmt.Errorf("write value %s: %w", k, err)
		}
	}
	return nil
}

// pieces returns the number of pieces of a value; an empty one has a piece too.
func pieces(size int) int { return max(1, (size+pieceBytes-1)/pieceBytes) }

// Get returns the value with a key, and its media type. The error is chunk.ErrUnknownValue if the session does not have it. count is called with its size before
// it is read; an error of count ends the read.
func (st *Store) Get(ctx context.Context, s chunk.Session, key string, count func(size int) error) (data []byte, mediaType string, err error) {
	k, ok := values.ParseKey(key)
	if !ok {
		return nil, "", chunk.ErrUnknownValue
	}
	subject, err := st.subject(s, k)
	if err != nil {
		return nil, "", err
	}
	for n, total := 0, 1; n < total; n++ {
		m, err := jsclient.Retry(ctx, st.client.Reading(retryTimeout), func(ctx context.Context) (jsclient.Message, error) {
			return st.client.Last(ctx, st.stream(), subject+"."+strconv.Itoa(n))
		})
		if errors.Is(err, jsclient.ErrNotFound) {
			return nil, "", chunk.ErrUnknownValue
		}
		if err != nil {
			return nil, "", fmt.Errorf("read value %s: %w", k, err)
		}
		if n == 0 {
			size, err := strconv.Atoi(m.Header.Get(sizeHeader))
			if err != nil || size < 0 || size > values.MaxBytes {
				return nil, "", chunk.ErrUnknownValue // not written by this package
			}
			if err := count(size); err != nil {
				return nil, "", err
			}
			total, mediaType, data = pieces(size), m.Header.Get(mediaHeader), make([]byte, 0, size)
		}
		data = append(data, m.Data...)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != k.SHA256 {
		return nil, "", chunk.ErrUnknownValue
	}
	return data, mediaType, nil
}

// CopyValue stores a value of one session as one of another, and reports whether it was found.
func (st *Store) CopyValue(ctx context.Context, of chunk.Session, k values.Key, to chunk.Session, as values.Key) (bool, error) {
	data, mediaType, err := st.Get(ctx, of, k.String(), func(int) error { return nil })
	if errors.Is(err, chunk.ErrUnknownValue) {
		return false, nil
	}
	if err == nil {
		err = st.Put(ctx, to, as, mediaType, data)
	}
	return err == nil, err
}

// Delete removes the values of a session of runs up to an epoch, and reports whether there were any.
func (st *Store) Delete(ctx context.Context, s chunk.Session, upTo chunk.Epoch) (found bool, err error) {
	of, err := names.Layout(st.layout).Values(s)
	if err != nil {
		return false, err
	}
	state, err := jsclient.Retry(ctx, st.client.Reading(retryTimeout), func(ctx context.Context) (jsclient.State, error) {
		return st.client.State(ctx, st.stream(), of+".>")
	})
	if err != nil {
		return false, fmt.Errorf("list the values of %s: %w", s, err)
	}
	done := make(map[string]bool)
	for subject := range state.Subjects {
		epoch, _, _ := strings.Cut(subject[len(of)+1:], ".")
		if n, err := strconv.ParseUint(epoch, 10, 64); done[epoch] || err == nil && (n == 0 || chunk.Epoch(n) > upTo) {
			continue
		}
		done[epoch] = true
		if _, err := st.client.PurgeRetry(ctx, retryTimeout, st.stream(), of+"."+epoch+".>", 0); err != nil {
			return true, fmt.Errorf("remove the values of %s: %w", s, err)
		}
	}
	return len(done) > 0, nil
}

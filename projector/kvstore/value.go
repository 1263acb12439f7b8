package kvstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/subjects"
)

// What is too large for a value of the bucket is an object, and the value a
// pointer to it. Each object is written under a name of its own, never to be
// used again, and noted under a key beside the head before it is written:
//
//	o.<tenant>.<root>.<session>.<name>
//
// So a process may die anywhere: whoever saves or deletes the session next finds
// in the notes what nobody points to.
//
// An object may be removed once a head was stored behind its note that does not
// point to it. Why that is safe:
//  1. somebody loads a head, notes an object, writes it, and stores a head that
//     points to it by compare-and-set with the one it loaded;
//  2. if another head was stored behind the note, that compare-and-set fails, or
//     was the one that stored it.
//
// So of the notes older than a head only the one it points to is still wanted,
// whoever looks, and however late. But its writer may not have noticed yet and
// write on, so a note says when its object is complete; until then it stays for
// Config.Settle, in which a writer is done or dead.

// pointer is the value of a key whose data is an object. It begins like no head
// and no message.
type pointer struct {
	Object string `json:"object"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"` // of the data, in hexadecimal digits
}

var pointerStart = []byte(`{"object":`)

// readPointer reports whether a value is a pointer.
func readPointer(value []byte) (p pointer, is bool) {
	if !bytes.HasPrefix(value, pointerStart) {
		return p, false
	}
	err := json.Unmarshal(value, &p)
	return p, err == nil && subjects.CheckToken("object", p.Object) == nil && p.Bytes >= 0
}

// The kinds of an object are how its name begins.
const (
	headObject    = "h"
	messageObject = "m"
)

// objectChunk is the size of the messages of an object. They are read one by
// one, so few of them are better.
const objectChunk = 512 << 10

// spill writes data as an object and returns the pointer to it. It is written by
// hand, in the form of the client library, which would put the data under a
// random subject of its own: died its writer before the name, nobody would ever
// find that again.
func (st *Store) spill(ctx context.Context, b *bucket, s chunk.Session, kind string, data []byte) ([]byte, error) {
	sum := sha256.Sum256(data)
	p := pointer{Object: kind + "-" + rand.Text(), Bytes: len(data), SHA256: hex.EncodeToString(sum[:])}
	note, err := subjects.SnapshotObjectKey(s, p.Object)
	if err != nil {
		return nil, err
	}
	if _, err := st.put(ctx, b, note, write{}); err != nil {
		return nil, err
	}
	if err := st.writeObject(ctx, b, s, p.Object, data, sum); err != nil {
		return nil, err
	}
	if _, err := st.put(ctx, b, note, write{data: complete}); err != nil {
		return nil, err
	}
	return json.Marshal(p)
}

// complete is the value of a note whose object has been written.
var complete = []byte("complete")

func (st *Store) writeObject(ctx context.Context, b *bucket, s chunk.Session, object string, data []byte, sum [sha256.Size]byte) error {
	size := max(1, min(objectChunk, b.limit))
	info := jetstream.ObjectInfo{
		Bucket: st.cfg.Layout.Objects(), NUID: object, Size: uint64(len(data)),
		Digest: "SHA-256=" + base64.URLEncoding.EncodeToString(sum[:]),
		ObjectMeta: jetstream.ObjectMeta{
			Name: object, Description: "of session " + s.String(),
			Opts: &jetstream.ObjectMetaOptions{ChunkSize: uint32(size)},
		},
	}
	for piece := range slices.Chunk(data, size) {
		info.Chunks++
		if err := st.putObject(ctx, dataSubject(st.cfg.Layout, object), piece); err != nil {
			return err
		}
	}
	meta, err := json.Marshal(info)
	if err != nil {
		return err
	}
	return st.putObject(ctx, metaSubject(st.cfg.Layout, object), meta)
}

func (st *Store) putObject(ctx context.Context, subject string, data []byte) error {
	_, err := st.js.Publish(ctx, st.api.Published(subject), data)
	if refusedForSize(err) {
		return errTooLarge
	}
	if err != nil {
		return fmt.Errorf("write an object: %w", err)
	}
	return nil
}

// The subjects of an object, as the client library has them.
func dataSubject(l subjects.Layout, object string) string {
	return "$O." + l.Objects() + ".C." + object
}

func metaSubject(l subjects.Layout, object string) string {
	return "$O." + l.Objects() + ".M." + base64.URLEncoding.EncodeToString([]byte(object))
}

// errNoObject reports a pointer to nothing.
var errNoObject = errors.New("the object is not there")

// fetch reads the object that p points to. The bucket is read from its leader,
// so errNoObject is certain. The library's own reader would wait in vain for
// the messages of an object that is removed under it.
func (st *Store) fetch(ctx context.Context, p pointer) ([]byte, error) {
	stream, err := st.js.Stream(ctx, objectStream(st.cfg.Layout))
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", st.cfg.Layout.Objects(), err)
	}
	var data []byte
	for seq := uint64(1); len(data) < p.Bytes; {
		m, err := stream.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(dataSubject(st.cfg.Layout, p.Object)))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil, errNoObject
		}
		if err != nil {
			return nil, fmt.Errorf("read object %s: %w", p.Object, err)
		}
		data = append(data, m.Data...)
		seq = m.Sequence + 1
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != p.SHA256 {
		return nil, errNoObject // a write that was repeated, or not ours
	}
	return data, nil
}

func objectStream(l subjects.Layout) string { return "OBJ_" + l.Objects() }

// collection is what a collect came to.
type collection struct {
	found bool // there was something
	left  bool // there still is: an object whose writer may be at work
}

// collect removes the objects of s that are noted before a place in the bucket,
// but for those that keep says are wanted.
func (st *Store) collect(ctx context.Context, b *bucket, s chunk.Session, before uint64, keep func(object string) bool) (c collection, err error) {
	filter, err := subjects.SnapshotObjectKeys(s)
	if err != nil {
		return c, err
	}
	info, err := b.stream.Info(ctx, jetstream.WithSubjectFilter(b.subject(filter)))
	if err != nil {
		return c, fmt.Errorf("list objects of %s: %w", s, err)
	}
	for subject := range info.State.Subjects {
		object := subject[len(b.subject(filter))-1:]
		if keep(object) {
			continue
		}
		note, err := st.api.Last(ctx, b.name, subject)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			continue // somebody else collected it
		case err != nil:
			return c, err
		case note.Seq >= before:
			continue
		}
		c.found = true
		if !bytes.Equal(note.Data, complete) && time.Since(note.Time) < st.cfg.Settle {
			c.left = true
			continue
		}
		if err := st.discard(ctx, b, s, object); err != nil {
			return c, err
		}
	}
	return c, nil
}

// discard removes an object and then its note: who dies between comes here again.
// It leaves nothing behind, where the library leaves a marker for ever.
func (st *Store) discard(ctx context.Context, b *bucket, s chunk.Session, object string) error {
	note, err := subjects.SnapshotObjectKey(s, object)
	if err != nil {
		return err
	}
	for _, subject := range []string{metaSubject(st.cfg.Layout, object), dataSubject(st.cfg.Layout, object)} {
		if _, err := st.api.Purge(ctx, objectStream(st.cfg.Layout), subject, 0); err != nil {
			return fmt.Errorf("remove object %s of %s: %w", object, s, err)
		}
	}
	if _, err := st.api.Purge(ctx, b.name, b.subject(note), 0); err != nil {
		return fmt.Errorf("forget object %s of %s: %w", object, s, err)
	}
	return nil
}

// write is one message for the bucket.
type write struct {
	data   []byte
	header nats.Header
	expect *uint64 // last sequence of the key, nil for any
	opts   []jetstream.PublishOpt
}

// put writes a key. The error is projector.ErrConflict when the key has another
// sequence than expected, and errTooLarge when the server finds it too large.
func (st *Store) put(ctx context.Context, b *bucket, key string, w write) (uint64, error) {
	m := &nats.Msg{Subject: st.api.Published(b.subject(key)), Header: w.header, Data: w.data}
	if m.Header == nil {
		m.Header = nats.Header{}
	}
	opts := w.opts
	if w.expect != nil {
		opts = append(opts, jetstream.WithExpectLastSequencePerSubject(*w.expect))
	}
	ack, err := st.js.PublishMsg(ctx, m, opts...)
	switch {
	case err == nil:
		return ack.Sequence, nil
	case isConflict(err):
		return 0, projector.ErrConflict
	case refusedForSize(err):
		return 0, errTooLarge
	}
	return 0, fmt.Errorf("write %s: %w", key, err)
}

// errTooLarge reports that the server has become stricter since its limits were
// asked for.
var errTooLarge = errors.New("the server takes no message of this size")

const (
	errCodeTooLarge  = 10054 // a message over the stream's limit
	errCodeSequence  = 10071 // the key has another sequence
	errCodeContended = 10164 // somebody else's write to the key is under way
)

func isConflict(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == errCodeSequence || api.ErrorCode == errCodeContended)
}

func refusedForSize(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, nats.ErrMaxPayload) || errors.As(err, &api) && api.ErrorCode == errCodeTooLarge
}

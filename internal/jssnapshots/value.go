package jssnapshots

import (
	"bytes"
	"context"
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
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// A value that is too large for the bucket is an object, and the stored value is a pointer to it. Each object is written under a unique name, and its name
// is noted under a key before it is written:
//
//	o.<tenant>.<root>.<session>.<name>
//
// So a process may crash at any point: the next process that saves or deletes the session finds the objects without a pointer by their notes.
//
// An object may be removed if a head that does not point to it was stored after its note. Why that is safe:
//  1. projector A loads a head, notes an object, writes it, and stores a head that points to it by compare-and-set with the one it loaded;
//  2. if another head was stored after the note, that compare-and-set fails, or was the one that stored it.
//
// So of the notes that are older than a head only that of the object that the head points to is needed, at any later time. But projector A may still be
// writing, or be stalled for long, so a note records when its object is complete; until then the note is kept for Config.WriteGrace, after which every writer has
// ended. Also a deletion keeps such a note, and the sweep that completes it removes what was written then.

// pointer is the value of a key whose data is an object. Heads and messages begin with other bytes.
type pointer struct {
	Object string `json:"object"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"` // of the data, in hexadecimal digits

	Life     int64 `json:"life,omitempty"`     // of a pack, see packInfo
	Messages int   `json:"messages,omitempty"` // number of messages of a pack
}

var pointerStart = []byte(`{"object":`)

// readPointer reports whether a value is a pointer.
func readPointer(value []byte) (p pointer, is bool) {
	if !bytes.HasPrefix(value, pointerStart) {
		return p, false
	}
	err := json.Unmarshal(value, &p)
	return p, err == nil && subjects.CheckToken("object", p.Object) == nil && p.Bytes >= 0 && p.Messages >= 0 && p.Messages <= fold.MaxPackMessages
}

// The kinds of an object, the prefixes of its name.
const (
	headObject    = "h"
	messageObject = "m"
)

// objectChunk is the size of the messages of an object. They are read one by one, so fewer are faster.
const objectChunk = 512 << 10

// spill writes data as an object and returns the pointer to it. It does not use the client library, which would write the data under a random subject: if the
// writer crashed before it wrote the name, that data could never be found. The format is that of the library.
func (st *Store) spill(ctx context.Context, b *bucket, s chunk.Session, object string, data []byte) (pointer, error) {
	sum := sha256.Sum256(data)
	p := pointer{Object: object, Bytes: len(data), SHA256: hex.EncodeToString(sum[:])}
	note, err := names.SnapshotObjectKey(s, p.Object)
	if err != nil {
		return p, err
	}
	if _, err := st.put(ctx, b, note, write{}); err != nil {
		return p, err
	}
	if err := st.writeObject(ctx, b, s, p.Object, data, sum); err != nil {
		return p, err
	}
	if _, err := st.put(ctx, b, note, write{data: complete}); err != nil {
		return p, err
	}
	return p, nil
}

// complete is the value of a note whose object has been written.
var complete = []byte("complete")

func (st *Store) writeObject(ctx context.Context, b *bucket, s chunk.Session, object string, data []byte, sum [sha256.Size]byte) error {
	size := max(1, min(objectChunk, b.limit))
	info := jetstream.ObjectInfo{
		Bucket: names.Layout(st.cfg.Layout).Objects(), NUID: object, Size: uint64(len(data)),
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
	_, err := st.js.Publish(ctx, st.api.PublishSubject(subject), data)
	if jsclient.IsTooLarge(err) {
		return errTooLarge
	}
	if err != nil {
		return fmt.Errorf("write an object: %w", err)
	}
	return nil
}

// ObjectStream returns the stream of the values that are too large for a message. It and the subjects of an object have the names of the client library.
func ObjectStream(l subjects.Layout) string { return "OBJ_" + names.Layout(l).Objects() }

func dataSubject(l subjects.Layout, object string) string {
	return "$O." + names.Layout(l).Objects() + ".C." + object
}

func metaSubject(l subjects.Layout, object string) string {
	return "$O." + names.Layout(l).Objects() + ".M." + base64.URLEncoding.EncodeToString([]byte(object))
}

// errNoObject reports a pointer to a missing object.
var errNoObject = errors.New("object not found")

// fetch reads the object that p points to. The bucket is read from its leader, so errNoObject is certain. The reader of the library would wait for the
// messages of an object that is removed during the read.
func (st *Store) fetch(ctx context.Context, p pointer) ([]byte, error) {
	stream, err := request(ctx, st, func(ctx context.Context) (jetstream.Stream, error) {
		return st.js.Stream(ctx, ObjectStream(st.cfg.Layout))
	})
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", names.Layout(st.cfg.Layout).Objects(), err)
	}
	var data []byte
	for seq := uint64(1); len(data) < p.Bytes; {
		m, err := request(ctx, st, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
			return stream.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(dataSubject(st.cfg.Layout, p.Object)))
		})
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
		return nil, errNoObject // a repeated write, or one of another program
	}
	return data, nil
}

// collection is the result of collect.
type collection struct {
	found bool // there were objects
	left  bool // objects remain: an object may still be written
}

// garbage says which objects of a session collect removes.
type garbage struct {
	before  uint64                   // those that are noted before this sequence …
	begun   time.Time                // … and before this time, zero for any …
	keep    func(object string) bool // … except these, nil for none
	deleted bool                     // the session is: what was written of incomplete objects is removed, and their notes stay …
	ended   bool                     // … unless no process can be writing any more
}

// isWriting reports whether a process may be writing the object of a note.
func (st *Store) isWriting(note jsclient.Message, g garbage, now time.Time) bool {
	return !bytes.Equal(note.Data, complete) && !g.ended && (g.deleted || now.Sub(note.Stored) < st.cfg.WriteGrace)
}

// collect removes objects of s.
func (st *Store) collect(ctx context.Context, b *bucket, s chunk.Session, g garbage) (c collection, err error) {
	filter, err := names.SnapshotObjectKeys(s)
	if err != nil {
		return c, err
	}
	info, err := st.info(ctx, b, b.subject(filter))
	if err != nil {
		return c, fmt.Errorf("list objects of %s: %w", s, err)
	}
	for subject := range info.State.Subjects {
		object := subject[len(b.subject(filter))-1:]
		if g.keep != nil && g.keep(object) {
			continue
		}
		note, err := st.lastMessage(ctx, b, subject)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			continue // collected by another process
		case err != nil:
			return c, err
		case note.Seq >= g.before, !g.begun.IsZero() && !note.Stored.Before(g.begun):
			continue
		case !st.isWriting(note, g, info.TimeStamp): // by the clock of the server
			c.found = true
			err = st.discard(ctx, b, s, object)
		default:
			c.left = true
			if g.deleted {
				err = st.removeObject(ctx, s, object)
			}
		}
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

// discard removes an object and then its note, so that it can be repeated after a crash. Unlike the library, it leaves no marker.
func (st *Store) discard(ctx context.Context, b *bucket, s chunk.Session, object string) error {
	note, err := names.SnapshotObjectKey(s, object)
	if err != nil {
		return err
	}
	if err := st.removeObject(ctx, s, object); err != nil {
		return err
	}
	if _, err := st.purge(ctx, b.name, b.subject(note), 0); err != nil {
		return fmt.Errorf("remove note of object %s of %s: %w", object, s, err)
	}
	return nil
}

// removeObject removes what was written of an object.
func (st *Store) removeObject(ctx context.Context, s chunk.Session, object string) error {
	for _, subject := range []string{metaSubject(st.cfg.Layout, object), dataSubject(st.cfg.Layout, object)} {
		if _, err := st.purge(ctx, ObjectStream(st.cfg.Layout), subject, 0); err != nil {
			return fmt.Errorf("remove object %s of %s: %w", object, s, err)
		}
	}
	return nil
}

// write is one message for the bucket.
type write struct {
	data   []byte
	header nats.Header
	expect *uint64 // last sequence of the key, nil for any
}

// retryTimeout is the retry budget of one write.
const retryTimeout = 5 * time.Second

// put writes a key. The error is projector.ErrConflict if the key has another sequence than expected, and errTooLarge if the server rejects the size. A
// conflict may be with this write itself, if the response to its first attempt was lost.
func (st *Store) put(ctx context.Context, b *bucket, key string, w write) (uint64, error) {
	m := &nats.Msg{Subject: st.api.PublishSubject(b.subject(key)), Header: w.header, Data: w.data}
	if m.Header == nil {
		m.Header = nats.Header{}
	}
	if w.expect == nil { // a note, which is not repeated: the server might store the repetition after the next state of the note
		ack, err := st.js.PublishMsg(ctx, m)
		if err != nil {
			return 0, fmt.Errorf("write %s: %w", key, err)
		}
		return ack.Sequence, nil
	}
	seq, err := st.api.Put(ctx, jsclient.Put{Msg: m, ExpectedSeq: w.expect, RetryTimeout: retryTimeout})
	switch {
	case errors.Is(err, jsclient.ErrConflict):
		return 0, projector.ErrConflict
	case errors.Is(err, chunk.ErrTooLarge):
		return 0, errTooLarge
	case err != nil:
		return 0, fmt.Errorf("write %s: %w", key, err)
	}
	return seq, nil
}

// errTooLarge reports that the limits of the server were lowered after they were read.
var errTooLarge = errors.New("message size rejected by the server")

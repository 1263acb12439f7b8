package jsclient

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Headers of an atomic batch.
const (
	headerBatchID       = "Nats-Batch-Id"
	headerBatchSequence = "Nats-Batch-Sequence" // of the message in the batch, from 1
	headerBatchCommit   = "Nats-Batch-Commit"
)

// The server adds its API level to the metadata of a stream. That of nats-server 2.15 is 5; earlier ones had faults in the code of atomic batches.
const (
	serverLevel = "_nats.level"
	batchLevel  = 5
)

// batchSupport is what a Publisher knows about the batches of a stream.
type batchSupport struct {
	stores bool
	until  time.Time // zero: until the server refuses a batch
}

// StoresBatches reports whether Publish should be called with several messages: the stream allows atomic batches and has more than one replica. With one replica,
// the server creates a file store for each batch while no other message of the stream is stored, so single messages are faster. It asks the leader once for each
// stream, and again after the server has refused a batch because the stream does not allow it. A leader that does not answer is not asked for ten seconds, because
// the caller has messages to store meanwhile, and a user that may not ask stores no batches.
func (s *SubjectPublisher) StoresBatches(ctx context.Context, c *Client) bool {
	if v, ok := s.publisher.batches.Load(s.stream); ok {
		known, _ := v.(batchSupport) // the map has no other values
		if known.until.IsZero() || time.Now().Before(known.until) {
			return known.stores
		}
	}
	var known batchSupport
	info, err := c.info(ctx, s.stream, "", 0)
	switch level, malformed := strconv.Atoi(info.Config.Metadata[serverLevel]); {
	case err == nil:
		known.stores = info.Config.AllowAtomicPublish && info.Config.Replicas > 1 && malformed == nil && level >= batchLevel
	case !errors.Is(err, nats.ErrPermissionViolation):
		known.until = time.Now().Add(10 * time.Second)
	}
	s.publisher.batches.Store(s.stream, known)
	return known.stores
}

// sendBatch sends the messages of one batch. Only the last one has a reply subject: the server responds to it alone. The id differs for each attempt: a message of
// an earlier one that arrives late does not belong to a later one.
//
// The lock keeps the number of batches that the server holds incomplete to one for each connection: it refuses more than fifty of a stream.
func (s *SubjectPublisher) sendBatch(messages []*nats.Msg, reply string) error {
	p := s.publisher
	p.batch.Lock()
	defer p.batch.Unlock()
	p.batchCount++
	id := []string{p.batchPrefix + strconv.FormatUint(p.batchCount, 36)}
	for i, m := range messages {
		m.Subject = s.subject
		m.Header[headerBatchID], m.Header[headerBatchSequence] = id, []string{strconv.Itoa(i + 1)}
		if i == len(messages)-1 {
			m.Reply, m.Header[headerBatchCommit] = reply, []string{"1"}
		}
		if err := p.nc.PublishMsg(m); err != nil {
			return err
		}
	}
	return nil
}

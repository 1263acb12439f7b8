package jssnapshots

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/projector/fold"
)

// The value of a pack is a line with a packInfo, and then the data of its messages, one after the other.
//
// The life is the time at which the log stored the first record of the session. A session that was deleted and starts again has the same indexes and generations,
// but another one. Without it:
//  1. projector A is slow and is about to write the pack of messages 32 to 80,
//  2. the session is deleted, starts again and gets a pack of messages 0 to 63,
//  3. projector A writes, its key is not in use, and a later reader has two packs with message 40.

// packInfo is the first line of a pack.
type packInfo struct {
	Life  int64 `json:"life"`
	Sizes []int `json:"sizes"` // bytes of each message
}

func appendPack(dst []byte, life int64, p []fold.FinishedMessage) []byte {
	info := packInfo{Life: life, Sizes: make([]int, 0, len(p))}
	size := 0
	for _, m := range p {
		info.Sizes = append(info.Sizes, len(m.Data))
		size += len(m.Data)
	}
	line, err := json.Marshal(info)
	if err != nil {
		panic("jssnapshots: integers cannot be encoded: " + err.Error())
	}
	if dst == nil {
		dst = make([]byte, 0, len(line)+1+size)
	}
	dst = append(append(dst, line...), '\n')
	for _, m := range p {
		dst = append(dst, m.Data...)
	}
	return dst
}

// packHeader returns the number of bytes before the messages of a pack.
func packHeader(value []byte) int { return bytes.IndexByte(value, '\n') + 1 }

// readPack returns the messages of a pack, nil if it belongs to another life of the session or is damaged.
func readPack(value []byte, life int64) [][]byte {
	n := packHeader(value)
	var info packInfo
	if n == 0 || json.Unmarshal(value[:n], &info) != nil || info.Life != life {
		return nil
	}
	rest := value[n:]
	messages := make([][]byte, 0, len(info.Sizes))
	for _, size := range info.Sizes {
		if size < 0 || size > len(rest) {
			return nil
		}
		messages = append(messages, rest[:size:size])
		rest = rest[size:]
	}
	if len(rest) > 0 {
		return nil
	}
	return messages
}

// removeReplaced removes the packs that a complete fold has replaced by packs with other bounds. seq is the sequence of the head, which is stored: a reader of
// the head before it finds no messages and loads the new one.
//
// It removes only packs of messages that the new packs have, of generations that the fold has read, stored before the head. Any other pack may belong to the next head:
//  1. projector A writes a pack, and its head is rejected because of this one,
//  2. it loads this head, folds on, finds that the pack is stored, and saves its head.
func (s *saving) removeReplaced(ctx context.Context, snap fold.Snapshot, packs [][]fold.FinishedMessage, seq uint64) error {
	filter, err := names.SnapshotPackKeys(s.session)
	if err != nil {
		return err
	}
	info, err := s.info(ctx, s.b, s.b.subject(filter))
	if err != nil {
		return fmt.Errorf("list packs of %s: %w", s.session, err)
	}
	last := packs[len(packs)-1]
	end, generation := last[0].Index+len(last), snap.Generation(last[0].Index)
	kept := make(map[string]bool, len(packs))
	for _, p := range packs {
		key, err := packKey(s.session, place{index: p[0].Index, generation: p[0].Generation})
		if err != nil {
			return err
		}
		kept[s.b.subject(key)] = true
	}
	for subject := range info.State.Subjects {
		n, ok := names.SnapshotPackOf(s.b.key(subject))
		if !ok || kept[subject] || int(n&(1<<indexBits-1)) >= end || chunk.Ordinal(n>>indexBits) > generation {
			continue
		}
		if err := s.removePack(ctx, subject, seq); err != nil {
			return err
		}
	}
	return nil
}

// removePack removes a pack that was stored before a sequence, with its object.
func (s *saving) removePack(ctx context.Context, subject string, before uint64) error {
	m, err := s.lastMessage(ctx, s.b, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && m.Seq >= before {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := s.purge(ctx, s.b.name, subject, before); err != nil {
		return err
	}
	if p, spilled := readPointer(m.Data); spilled {
		return s.discard(ctx, s.b, s.session, p.Object)
	}
	return nil
}

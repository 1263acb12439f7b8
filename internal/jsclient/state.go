package jsclient

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// State is the state of a stream, as its leader has it.
type State struct {
	Epoch       string // of the history of the stream, see EpochOf
	Created     time.Time
	Now         time.Time // of the server that responded
	First, Last uint64    // sequences
	Messages    uint64
	Replicas    int
	Subjects    map[string]uint64 // messages of each subject that matches the filter; nil without a filter
}

// State returns the state of a stream, and then the number of messages of each subject that matches filter, in this order: a subject that is not listed
// has no message up to State.Last. An empty filter lists no subjects. The server returns a hundred thousand subjects at a time; if subjects vanish
// between two of these requests, as many others may be missing.
func (c *Client) State(ctx context.Context, stream, filter string) (State, error) {
	info, err := c.info(ctx, stream, filter, 0)
	if err != nil {
		return State{}, err
	}
	s := State{
		Epoch: EpochOf(&info.StreamInfo), Created: info.Created, Now: info.TimeStamp, First: info.State.FirstSeq, Last: info.State.LastSeq, Messages: info.State.Msgs,
		Replicas: info.Config.Replicas, Subjects: info.State.Subjects,
	}
	for offset := nextOffset(0, len(s.Subjects), info.Total); offset > 0; {
		more, err := c.info(ctx, stream, filter, offset)
		if err != nil {
			return State{}, err
		}
		maps.Copy(s.Subjects, more.State.Subjects)
		offset = nextOffset(offset, len(more.State.Subjects), more.Total)
	}
	return s, nil
}

// Subjects returns a page of the subjects of a filter that have messages, sorted, and the offset of the next page. The first offset is 0, and next is 0
// after the last page. The server lists a hundred thousand subjects at a time. If subjects vanish between two pages, as many others may be missing.
func (c *Client) Subjects(ctx context.Context, stream, filter string, offset int) (page []string, next int, err error) {
	info, err := c.info(ctx, stream, filter, offset)
	if err != nil {
		return nil, 0, err
	}
	page = slices.Sorted(maps.Keys(info.State.Subjects))
	return page, nextOffset(offset, len(page), info.Total), nil
}

// CountSubjects returns the number of subjects of a filter that have messages. The server reads no message for it, and the response has no subject: one of 0
// takes the same time as one of 1.
func (c *Client) CountSubjects(ctx context.Context, stream, filter string) (int, error) {
	var info struct {
		failure

		Total int `json:"total"`
	}
	err := c.request(ctx, "STREAM.INFO."+stream, subjectsQuery{filter, math.MaxInt32}, &info) // a list that begins after the last subject
	return info.Total, err
}

// subjectsQuery is the body of a request for the subjects of a stream.
type subjectsQuery struct {
	Filter string `json:"subjects_filter,omitempty"`
	Offset int    `json:"offset,omitempty"`
}

type streamInfo struct {
	failure
	jetstream.StreamInfo

	Total int `json:"total"` // subjects
}

func (c *Client) info(ctx context.Context, stream, filter string, offset int) (streamInfo, error) {
	var info streamInfo
	err := c.request(ctx, "STREAM.INFO."+stream, subjectsQuery{filter, offset}, &info)
	return info, err
}

// nextOffset returns the offset of the next page, 0 if there is none.
func nextOffset(offset, got, total int) int {
	if next := offset + got; got > 0 && next < total {
		return next
	}
	return 0
}

package jsapi

import (
	"context"
	"maps"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// Subjects is a page of the subjects of a filter that have messages, sorted, and
// how far to go on; 0 is the end, and the beginning. The server lists a
// hundred thousand at a time. A page is what there is when it is asked for: where
// subjects vanish between two pages, as many may be left out.
func (a *API) Subjects(ctx context.Context, stream, filter string, offset int) (page []string, next int, err error) {
	var answer struct {
		Error *jetstream.APIError `json:"error"`
		Total int                 `json:"total"`
		State struct {
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	query := struct {
		Filter string `json:"subjects_filter"`
		Offset int    `json:"offset,omitempty"`
	}{filter, offset}
	if err := a.ask(ctx, "STREAM.INFO."+stream, query, &answer); err != nil {
		return nil, 0, err
	}
	if answer.Error != nil {
		return nil, 0, answer.Error
	}
	page = slices.Sorted(maps.Keys(answer.State.Subjects))
	return page, after(offset, len(page), answer.Total), nil
}

// after is the offset of the next page, 0 when there is none.
func after(offset, got, total int) int {
	if next := offset + got; got > 0 && next < total {
		return next
	}
	return 0
}

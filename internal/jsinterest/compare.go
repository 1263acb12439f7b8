package jsinterest

import (
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/tailrace/tailrace/internal/jsclient"
)

// maxSubjects is the number of subjects that the server accepts in one request.
const maxSubjects = 1024

// maxTrees is the number of trees in one request.
const maxTrees = 256

// compareSome compares the first trees, and returns how many. The server refuses a request with more than maxSubjects sessions, so it is for fewer trees then.
func (p *prover) compareSome(ctx context.Context, about result, trees []*tree) (int, error) {
	for n := min(len(trees), maxTrees); ; n /= 2 {
		some := trees[:n]
		filters, proved := make([]string, n), some[0].proved.Load()
		for i, t := range some {
			filters[i], proved = t.filter, min(proved, t.proved.Load())
		}
		last, through, err := p.lasts(ctx, filters, proved+1)
		switch {
		case errors.Is(err, jsclient.ErrTooManySubjects) && n > 1:
			continue
		case errors.Is(err, jsclient.ErrTooManySubjects):
			last, err = p.lastsOfLargeTree(ctx, some[0].filter, proved+1)
		}
		if err != nil {
			return 0, err
		}
		for _, t := range some {
			res := about
			res.last, res.through = last[strings.TrimSuffix(t.filter, "*")], through
			p.found(t, res)
		}
		return n, nil
	}
}

// lasts returns the last sequences of the subjects, at least from, by tree: by subject without the last token. through is 0 if it is unknown.
func (p *prover) lasts(ctx context.Context, filters []string, from uint64) (last map[string]map[string]uint64, through uint64, err error) {
	last = make(map[string]map[string]uint64)
	for more := true; more; {
		found := false
		got := func(m jsclient.Message) {
			found, from = true, m.Seq+1
			tree := m.Subject[:strings.LastIndexByte(m.Subject, '.')+1]
			if last[tree] == nil {
				last[tree] = make(map[string]uint64)
			}
			last[tree][m.Subject] = m.Seq
		}
		err = p.follower.client.Attempt(ctx, func(ctx context.Context) (err error) {
			through, more, err = p.follower.client.LastOfEachFrom(ctx, p.stream, filters, from, got)
			return err
		})
		if err != nil {
			return nil, 0, err
		}
		more = more && found
	}
	return last, through, nil
}

// lastsOfLargeTree is lasts for one tree with more than maxSubjects sessions: the leader lists them. A session that begins meanwhile is found by the next
// comparison.
func (p *prover) lastsOfLargeTree(ctx context.Context, filter string, from uint64) (last map[string]map[string]uint64, err error) {
	tree := strings.TrimSuffix(filter, "*")
	last = map[string]map[string]uint64{tree: {}}
	for offset, begun := 0, false; offset > 0 || !begun; begun = true {
		var subjects []string
		if subjects, offset, err = p.follower.client.Subjects(ctx, p.stream, filter, offset); err != nil {
			return nil, err
		}
		for len(subjects) > 0 {
			n := min(len(subjects), maxSubjects)
			some, _, err := p.lasts(ctx, subjects[:n], from)
			if err != nil {
				return nil, err
			}
			maps.Copy(last[tree], some[tree])
			subjects = subjects[n:]
		}
	}
	return last, nil
}

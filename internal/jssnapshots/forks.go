package jssnapshots

import (
	"context"
	"fmt"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/idtoken"
	"github.com/tailrace/tailrace/internal/names"
)

// A fork has a key without a value in the bucket of the root session that it continues:
//
//	fork.<tenant>.<root>.<fork>
//
// It is written before the first record of the fork, so no fork is missed, and again before the first head that has the origin, so that a bucket that is filled
// by a rebuild has it too. It only helps to find forks, because a key can be left behind, and a refused request writes one: the head of the fork says whether it
// is one, and of which session.

// AddFork writes the key of a fork.
func (st *Store) AddFork(ctx context.Context, origin, fork chunk.Session) error {
	key, err := names.SnapshotForkKey(origin, fork.ID)
	if err != nil {
		return err
	}
	b, err := st.bucketOf(ctx, origin)
	if err != nil {
		return err
	}
	_, err = st.putKey(ctx, b, key)
	return err
}

// Forks returns the sessions that may be forks of a root session.
func (st *Store) Forks(ctx context.Context, origin chunk.Session) ([]chunk.Session, error) {
	b, filter, err := st.locate(ctx, origin, names.SnapshotForkKeys)
	if err != nil {
		return nil, err
	}
	info, err := st.info(ctx, b, b.subject(filter))
	if err != nil {
		return nil, fmt.Errorf("list forks of %s: %w", origin, err)
	}
	var all []chunk.Session
	for subject := range info.State.Subjects {
		if id, problem := idtoken.Parse(subject[strings.LastIndexByte(subject, '.')+1:]); problem == "" {
			all = append(all, chunk.RootSession(origin.Tenant, id))
		}
	}
	return all, nil
}

// RemoveFork removes the key of a fork that was deleted.
func (st *Store) RemoveFork(ctx context.Context, origin, fork chunk.Session) error {
	key, err := names.SnapshotForkKey(origin, fork.ID)
	if err != nil {
		return nil //nolint:nilerr // it cannot exist
	}
	b, err := st.bucketOf(ctx, origin)
	if err != nil {
		return err
	}
	if _, err := st.purge(ctx, b.name, b.subject(key), 0); err != nil {
		return fmt.Errorf("remove %s: %w", key, err)
	}
	return nil
}

package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

// State is what Check finds of a partition.
type State struct {
	Position row.Position
	Behind   uint64 // messages after the position
	Sessions Sessions
}

// Check returns the position of each partition, and how many sessions in the store Tailrace has deleted, by the heads of snapshots. It needs no Run, and changes nothing.
func (s *Sink) Check(ctx context.Context) ([]State, error) {
	if err := s.readPositions(ctx); err != nil {
		return nil, err
	}
	states := make([]State, len(s.parts))
	for i, p := range s.parts {
		tip, err := s.trees.Tip(ctx, p.number)
		if err != nil {
			return nil, err
		}
		states[i] = State{Position: p.position, Behind: uint64(max(tip.Seq, p.position.Seq) - p.position.Seq)}
		if states[i].Sessions, err = s.compareAll(ctx, s.parts[i:i+1], isNothing); err != nil {
			return nil, err
		}
	}
	return states, nil
}

// EraseDeleted deletes from the store all sessions that the log's heads do not have, however many they are, and returns their number. Another process may copy
// meanwhile.
func (s *Sink) EraseDeleted(ctx context.Context) (int, error) {
	if err := s.readPositions(ctx); err != nil {
		return 0, err
	}
	found, err := s.compareAll(ctx, s.parts, isGone)
	return found.Deleted + found.Absent, err
}

var errOtherLog = errors.New("the log is not that of the store: it was restored or created again, and no sink has run since")

// readPositions sets the positions of the partitions without a Begin.
func (s *Sink) readPositions(ctx context.Context) error {
	positions, err := s.cfg.Store.Positions(ctx, len(s.parts))
	if err != nil {
		return err
	}
	for i, p := range s.parts {
		p.position = positions[i]
		if p.position.Generation == 0 {
			continue
		}
		tip, err := s.trees.Tip(ctx, p.number)
		if err != nil {
			return err
		}
		if same, err := p.has(ctx, p.position, tip); err != nil || !same {
			return errors.Join(err, fmt.Errorf("partition %d: %w", p.number, errOtherLog))
		}
	}
	return nil
}

// EraseByHand deletes the rows of a session from the store, of a root those of its tree, and returns how many sessions had any. Another process may copy meanwhile: what
// it stores later stays, as the rows of a session that continues do.
func (s *Sink) EraseByHand(ctx context.Context, of chunk.Session) (sessions int, err error) {
	var last row.Place
	selection := row.Selection{Partition: s.cfg.Layout.Partition(of), Tenant: of.Tenant, Root: of.Root}
	err = s.cfg.Store.Sessions(ctx, selection, func(p row.Place) error {
		if !of.IsRoot() && p.Session != of.ID {
			return nil
		}
		if sessions++; sessions == 1 || p.IsAfter(&last) {
			last = p
		}
		return nil
	})
	if err != nil || sessions == 0 {
		return 0, err
	}
	last.Session = of.ID
	return sessions, s.cfg.Store.Delete(ctx, []row.Gap{row.DeletionThrough(last)})
}

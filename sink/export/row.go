package export

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

// Row is what is delivered: a version of an observation, or the deletion of a session. It is not changed.
type Row struct {
	*row.Observation // nil for a deletion

	Deletion *row.Gap // nil for an observation
}

// Place returns where the row was written.
func (r Row) Place() row.Place {
	if r.Deletion != nil {
		return r.Deletion.Place
	}
	return r.Observation.Place
}

// Hash returns 32 hex digits that name what the row is about: the id of the observation, or a hash of the deletion.
func (r Row) Hash() string {
	if r.Deletion == nil {
		return r.ID
	}
	p := r.Deletion.Place
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\ndeleted\n%d\n%d", p.Tenant, p.Root, p.Session, p.Seq, chunk.AnchorAt(p.StoredAt)))
	return hex.EncodeToString(sum[:16])
}

// Key names this version of the row, "<hash>-<sequence>-<anchor>". It is equal in each delivery of the row, also after the log was restored from a backup.
func (r Row) Key() string {
	p := r.Place()
	return r.Hash() + "-" + chunk.Cursor{Seq: chunk.Seq(p.Seq), Anchor: chunk.AnchorAt(p.StoredAt)}.String()
}

// size estimates the bytes of the row.
func (r Row) size() int64 {
	const fixed = 1000
	if r.Observation == nil {
		return fixed
	}
	return int64(fixed + len(r.Input) + len(r.Output) + len(r.Metadata) + len(r.StatusMessage))
}

// lane returns the number of the lane of the row, one for all rows of a tree.
func (r Row) lane(lanes int) int {
	p := r.Place()
	h := fnv.New32a()
	_, _ = h.Write([]byte(p.Tenant + "\n" + p.Root)) // a hash returns no error
	return int(h.Sum32() % uint32(lanes))
}

// rowsOf returns the rows of a batch that are selected, in their order.
func rowsOf(b *row.Batch, selects func(Row) bool) (rows []Row) {
	add := func(r Row) {
		if selects(r) {
			rows = append(rows, r)
		}
	}
	for i := range b.Observations {
		add(Row{Observation: &b.Observations[i]})
	}
	for i := range b.Gaps {
		if b.Gaps[i].Erases() {
			add(Row{Deletion: &b.Gaps[i]})
		}
	}
	return rows
}

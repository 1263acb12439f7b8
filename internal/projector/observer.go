package projector

import (
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// Observer receives the events that a Runner counts. Calls may overlap and must not block.
type Observer interface {
	// Applied is called for each record that changed a snapshot. Refolding a session reports its records again.
	Applied(t chunk.Type)

	// Saved is called after a save, with the approximate memory of the saved head and of the new messages in bytes.
	Saved(memory int, took time.Duration)

	// Conflict is called when a save is rejected because the stored head has changed.
	Conflict()
}

// noObserver ignores all events.
type noObserver struct{}

func (noObserver) Applied(chunk.Type)       {}
func (noObserver) Saved(int, time.Duration) {}
func (noObserver) Conflict()                {}

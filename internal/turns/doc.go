// Package turns lets one of several processes do what is to be done now and then,
// by a note in the bucket of snapshots that says when it was begun.
//
//	turn, err := turns.New(js, layout, "sweep", time.Hour)
//	for {
//		err := turn.Do(ctx, sweep) // or nothing: somebody has, in this hour
//		...
//	}
//
// It saves work and promises nothing: who is slow may be at it when the next one
// begins, so what is done must bear to be done twice at the same time.
package turns

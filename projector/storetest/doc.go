// Package storetest is the contract of a projector.Store, and stand-ins for what
// a Runner needs: a store and a log in memory.
//
//	func TestMemory(t *testing.T) {
//		storetest.Exercise(t, func(*testing.T) projector.Store { return storetest.NewMemory() })
//	}
//
// Every implementation passes Exercise, the one in memory first, so that the
// fake cannot drift from the truth.
package storetest

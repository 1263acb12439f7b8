// Package storetest has the contract tests of a projector.Store, and a store and a log in memory for tests of a Runner.
//
//	func TestMemory(t *testing.T) {
//		storetest.RunContract(t, func(*testing.T) projector.Store { return storetest.NewMemory() })
//	}
//
// Every implementation passes RunContract. The store in memory does too, so it behaves like the real ones.
package storetest

// Package e2e tests the whole system from the outside: writers and followers
// during server kills and leader changes, the built binary on the command line,
// clients that are disconnected at random bytes, and a real browser. Build tag
// e2e; `make e2e` builds what it needs. No test is skipped: a missing
// dependency fails the test with the command that installs it.
package e2e

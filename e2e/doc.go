// Package e2e proves the whole system the way its users meet it: writers and
// followers through killed servers and fallen leaders, the built binary in a
// shell, real clients at random cuts, and a real browser. Build tag e2e; `make
// e2e` builds what it needs. Nothing here skips: what is missing fails and says
// what to install.
package e2e

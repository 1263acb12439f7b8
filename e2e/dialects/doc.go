// Package dialects tests clients of several dialects together: each continues a turn where the one before was disconnected. The tests of single clients are in the
// directories below. Build tag e2e.
package dialects

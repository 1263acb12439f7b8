// Package archtest holds the plan of the house: the floor of every package and
// the rooms that may speak to NATS. Its tests compare the plan with the real
// imports and fail when a room imports upward, when neighbours import each
// other, or when a package has no floor: a new room is a decision.
package archtest

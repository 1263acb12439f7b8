// Package erase deletes sessions, for good and from everywhere.
package erase

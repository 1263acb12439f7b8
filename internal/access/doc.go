// Package access derives from the Grant of a request what its client may use: its sessions, view and rights in a conversation.
package access

// Package aisdk is a copy of the writer of the AI SDK before one machine wrote the turns of all dialects, see package oldturn.
package aisdk

// Package control defines commands to execute, resume or abort a run, answers to its calls, and requests to stop it, with their JSON and the ids of runs. It
// does not import NATS; package jscontrol stores them.
package control

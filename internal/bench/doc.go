// Package bench measures Tailrace against a baseline: the same work with bare
// nats.go or bare net/http, in the same run, in alternating rounds, on an
// embedded server. Machines are shared and noisy; only the ratio of two adjacent
// rounds is reliable, and the median ratio is printed. Scale compares no baseline:
// it fits a cost model to deployments of several sizes.
package bench

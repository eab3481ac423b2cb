// Package playbooks is the domain: a Playbook says which probes to run and how
// to judge what they saw, the Runner runs it, Judge works out the root cause,
// and a Report is the outcome.
package playbooks

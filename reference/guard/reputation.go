package guard

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
)

// Standing is what is known about an address.
type Standing uint8

// The standings.
const (
	Unknown Standing = iota
	Trusted          // own probes, load generators: no limits per address
	Banned           // refused
)

// Reputation knows addresses.
type Reputation interface {
	// Of returns the standing of an address, which may be invalid. It is asked
	// for every request and must not block. An error means that it does not know;
	// the request passes then.
	Of(ctx context.Context, a netip.Addr) (Standing, error)
}

// Networks is a fixed list of trusted and banned networks. The narrowest one
// that holds an address decides.
type Networks struct {
	standing map[netip.Prefix]Standing
	bits4    []int // prefix lengths in use, the longest first
	bits6    []int
}

var _ Reputation = (*Networks)(nil)

// NewNetworks makes a list. A network that is in both lists is banned. Do not
// trust the network of a reverse proxy that the Origin does not know: all its
// clients would look like the proxy and go without a limit.
func NewNetworks(trusted, banned []netip.Prefix) (*Networks, error) {
	n := &Networks{standing: make(map[netip.Prefix]Standing, len(trusted)+len(banned))}
	add := func(list []netip.Prefix, s Standing) error {
		for _, p := range list {
			p, err := normalPrefix(p)
			if err != nil {
				return err
			}
			n.standing[p] = s
			bits := &n.bits6
			if p.Addr().Is4() {
				bits = &n.bits4
			}
			if !slices.Contains(*bits, p.Bits()) {
				*bits = append(*bits, p.Bits())
			}
		}
		return nil
	}
	if err := add(trusted, Trusted); err != nil {
		return nil, fmt.Errorf("trusted networks: %w", err)
	}
	if err := add(banned, Banned); err != nil {
		return nil, fmt.Errorf("banned networks: %w", err)
	}
	for _, bits := range [][]int{n.bits4, n.bits6} {
		slices.Sort(bits)
		slices.Reverse(bits)
	}
	return n, nil
}

// Of implements Reputation. It takes one look-up per prefix length in use.
func (n *Networks) Of(_ context.Context, a netip.Addr) (Standing, error) {
	a = normalAddr(a)
	bits := n.bits6
	if a.Is4() {
		bits = n.bits4
	}
	for _, b := range bits {
		p, err := a.Prefix(b)
		if err != nil {
			break // an invalid address is in no network
		}
		if s, ok := n.standing[p]; ok {
			return s, nil
		}
	}
	return Unknown, nil
}

// reputationCheck refuses the banned and exempts the trusted.
type reputationCheck struct {
	reputation Reputation
}

// Check implements Checker.
func (c reputationCheck) Check(ctx context.Context, r Request) (Verdict, error) {
	standing, err := c.reputation.Of(ctx, r.Addr)
	switch {
	case err != nil:
		return Verdict{}, fmt.Errorf("look up reputation: %w", err)
	case standing == Banned:
		return Verdict{Outcome: Refused, Reason: "requests from this address are not accepted"}, nil
	case standing == Trusted:
		return Verdict{Outcome: Exempt}, nil
	}
	return Verdict{}, nil
}

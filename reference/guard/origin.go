package guard

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// maxHops bounds the walk through a chain of proxies.
const maxHops = 16

// Origin finds out which client a request comes from.
type Origin struct {
	trusted []netip.Prefix
}

// NewOrigin returns an Origin that believes the X-Forwarded-For headers of the
// given proxies and of nobody else.
func NewOrigin(trusted []netip.Prefix) (*Origin, error) {
	o := &Origin{}
	for _, p := range trusted {
		n, err := normalPrefix(p)
		if err != nil {
			return nil, fmt.Errorf("trusted proxy: %w", err)
		}
		o.trusted = append(o.trusted, n)
	}
	return o, nil
}

// Client returns the client's address. remote is the peer of the connection, as
// http.Request.RemoteAddr has it; forwarded are the X-Forwarded-For lines in the
// order received. Each proxy adds its peer on the right, so the list is read from
// there for as long as the one who spoke is trusted: what stands further left is
// hearsay. If a trusted proxy sends what is no address, its own address is the
// client's. The result is invalid if remote is none.
func (o *Origin) Client(remote string, forwarded []string) netip.Addr {
	client, ok := parseHop(remote)
	if !ok {
		return netip.Addr{}
	}
	hops := 0
	for _, line := range slices.Backward(forwarded) {
		for rest, more := line, true; more; hops++ {
			if hops == maxHops || !o.trusts(client) {
				return client
			}
			last := rest
			cut := strings.LastIndexByte(rest, ',')
			if more = cut >= 0; more {
				rest, last = rest[:cut], rest[cut+1:]
			}
			next, ok := parseHop(strings.Trim(last, " \t"))
			if !ok {
				return client
			}
			client = next
		}
	}
	return client
}

func (o *Origin) trusts(a netip.Addr) bool {
	for _, p := range o.trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// parseHop reads an address, with or without port; one of IPv6 may have
// brackets, and with a port it must. The zone of an IPv6 address says nothing
// outside the host that sent it and is dropped.
func parseHop(s string) (netip.Addr, bool) {
	const longest = len("[0000:0000:0000:0000:0000:ffff:255.255.255.255%interface-name.0]:65535")
	if len(s) > longest {
		return netip.Addr{}, false
	}
	inner, bracketed := strings.CutPrefix(s, "[")
	if !bracketed && strings.Count(s, ":") == 1 || bracketed && !strings.HasSuffix(s, "]") {
		ap, err := netip.ParseAddrPort(s)
		return normalAddr(ap.Addr()), err == nil
	}
	if bracketed {
		a, err := netip.ParseAddr(inner[:len(inner)-1])
		return normalAddr(a), err == nil && a.Is6()
	}
	a, err := netip.ParseAddr(s)
	return normalAddr(a), err == nil
}

// normalAddr gives every address one spelling: IPv4 in IPv6 becomes IPv4.
func normalAddr(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

func normalPrefix(p netip.Prefix) (netip.Prefix, error) {
	if !p.IsValid() {
		return p, fmt.Errorf("invalid network %q", p)
	}
	if a := p.Addr(); a.Is4In6() {
		if p.Bits() < 96 {
			return p, fmt.Errorf("network %s mixes IPv4 and IPv6", p)
		}
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}

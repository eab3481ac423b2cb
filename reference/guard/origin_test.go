package guard_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/regpath/diagnose/reference/guard"
)

func prefixes(list ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, s := range list {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}

func newOrigin(t testing.TB, trusted ...string) *guard.Origin {
	t.Helper()
	o, err := guard.NewOrigin(prefixes(trusted...))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, "10.0.0.0/8", "::ffff:172.16.0.0/108", "2001:db8:ffff::/48", "192.0.2.77/32")
	f := func(remote, want string, forwarded ...string) {
		t.Helper()
		got := o.Client(remote, forwarded)
		if want == "" && got.IsValid() || want != "" && got.String() != want {
			t.Errorf("Client(%q, %.200q) = %s, want %q", remote, forwarded, got, want)
		}
	}
	// Nobody in between.
	f("203.0.113.5:4711", "203.0.113.5")
	f("[2001:db8::5]:4711", "2001:db8::5")
	f("[::ffff:203.0.113.5]:4711", "203.0.113.5")
	f("[fe80::1%eth0]:4711", "fe80::1")
	f("203.0.113.5", "203.0.113.5")
	f("", "")
	f("@", "")
	f("/run/sock", "")
	f("localhost:80", "")
	f("203.0.113.5:99999", "")
	f("203.0.113.5:", "")

	// A stranger's header is hearsay.
	f("203.0.113.5:4711", "203.0.113.5", "10.0.0.1")
	f("203.0.113.5:4711", "203.0.113.5", "198.51.100.1, 10.0.0.1")
	f("", "", "198.51.100.1")

	// A trusted proxy's header counts, from the right.
	f("10.0.0.1:80", "10.0.0.1")
	f("10.0.0.1:80", "198.51.100.1", "198.51.100.1")
	f("10.0.0.1:80", "198.51.100.1", "  198.51.100.1\t")
	f("10.0.0.1:80", "198.51.100.1", "1.1.1.1, 198.51.100.1")
	f("10.0.0.1:80", "198.51.100.1", "192.0.2.77, 1.1.1.1,198.51.100.1,10.9.9.9 , 172.16.0.1")
	f("[::ffff:10.0.0.1]:80", "198.51.100.1", "198.51.100.1")
	f("10.0.0.1:80", "198.51.100.1", "198.51.100.1, ::ffff:10.0.0.3")
	f("[2001:db8:ffff::1]:80", "2001:db8::9", "2001:db8::9")
	f("10.0.0.1:80", "10.0.0.3", "10.0.0.3, 10.0.0.2") // all trusted: the outermost
	// Several lines are one list.
	f("10.0.0.1:80", "198.51.100.1", "1.1.1.1", "198.51.100.1, 10.0.0.3", "10.0.0.2")
	f("10.0.0.1:80", "198.51.100.1", "198.51.100.1", "10.0.0.2")
	f("10.0.0.1:80", "10.0.0.2", "198.51.100.1", "", "10.0.0.2")

	// The spellings that proxies use.
	f("10.0.0.1:80", "198.51.100.1", "198.51.100.1:4711")
	f("10.0.0.1:80", "2001:db8::9", "[2001:db8::9]")
	f("10.0.0.1:80", "2001:db8::9", "[2001:db8::9]:4711")
	f("10.0.0.1:80", "2001:db8::9", "2001:DB8:0:0::9")
	f("10.0.0.1:80", "2001:db8::9", "2001:db8::9%eth0")
	f("10.0.0.1:80", "198.51.100.1", "::ffff:198.51.100.1")

	// What is no address ends the walk at the one who sent it.
	for _, bad := range []string{
		"", ",", " ", "unknown", "_hidden", "-", "localhost", "198.51.100", "198.51.100.1.1", "198.51.100.256",
		"0198.51.100.1", "0x7f000001", "2130706433", "198.51.100.1:", "198.51.100.1:port", "198.51.100.1/32",
		"[198.51.100.1]", "[198.51.100.1", "198.51.100.1]", "[", "]", "[]", "[]:80", "[[::1]]", ":", "::1::", "[::1", "[::1]x",
		"\"198.51.100.1\"", "for=198.51.100.1", "198.51.100.1;198.51.100.2", "198.51.100.1\x00", "１９８.51.100.1", "\xff",
		"198.51.100.1\r\nX-Forwarded-For: 1.1.1.1", strings.Repeat("1", 1<<16), "::1%" + strings.Repeat("z", 100),
	} {
		f("10.0.0.1:80", "10.0.0.1", bad)
		f("10.0.0.1:80", "10.0.0.2", "198.51.100.1, "+bad+", 10.0.0.2")
	}
	f("10.0.0.1:80", "10.0.0.2", "198.51.100.1,, 10.0.0.2")

	// A chain without end is not walked to its end.
	f("10.0.0.1:80", "10.0.0.2", strings.Repeat("10.0.0.2,", 100_000)+"10.0.0.2")
	f("10.0.0.1:80", "10.0.0.2", append([]string{"198.51.100.1"}, strings.Split(strings.Repeat("10.0.0.2,", 20)+"10.0.0.2", ",")...)...)
	f("10.0.0.1:80", "198.51.100.1", "198.51.100.1"+strings.Repeat(",10.0.0.2", 15))
	f("10.0.0.1:80", "10.0.0.2", "198.51.100.1"+strings.Repeat(",10.0.0.2", 16))
}

func TestOriginTrustsNobodyByDefault(t *testing.T) {
	t.Parallel()
	if got := newOrigin(t).Client("127.0.0.1:80", []string{"198.51.100.1"}); got != addr("127.0.0.1") {
		t.Errorf("Client = %s, want the peer", got)
	}
	f := func(p netip.Prefix, want string) {
		t.Helper()
		if _, err := guard.NewOrigin([]netip.Prefix{p}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewOrigin(%s) error = %v, want %q in it", p, err, want)
		}
	}
	f(netip.Prefix{}, "invalid network")
	f(netip.MustParsePrefix("::ffff:0:0/90"), "mixes IPv4 and IPv6")
}

func FuzzOrigin(f *testing.F) {
	for _, s := range []string{"198.51.100.1", "1.1.1.1, 10.0.0.1", "[::1]:80,10.1.1.1", "::ffff:10.0.0.1,,", "unknown, 10.0.0.1 "} {
		f.Add("10.0.0.1:80", s)
	}
	f.Add("203.0.113.5:1", "10.0.0.1")
	o := newOrigin(f, "10.0.0.0/8")
	trusted := netip.MustParsePrefix("10.0.0.0/8")
	f.Fuzz(func(t *testing.T, remote, forwarded string) {
		got := o.Client(remote, []string{forwarded})
		peer := o.Client(remote, nil)
		if got.Is4In6() || got.Zone() != "" {
			t.Errorf("Client(%q, %q) = %s is not in its one spelling", remote, forwarded, got)
		}
		if got.IsValid() != peer.IsValid() {
			t.Errorf("Client(%q, %q) = %s, without header %s", remote, forwarded, got, peer)
		}
		if !trusted.Contains(peer) && got != peer {
			t.Errorf("Client(%q, %q) = %s: believed a stranger", remote, forwarded, got)
		}
		// Whatever a client puts in front of what the proxy adds, it stays who it is.
		if trusted.Contains(peer) {
			if got := o.Client(remote, []string{forwarded, "203.0.113.9"}); got != addr("203.0.113.9") {
				t.Errorf("Client(%q, %q + own address) = %s", remote, forwarded, got)
			}
			if got := o.Client(remote, []string{forwarded + ",203.0.113.9"}); got != addr("203.0.113.9") {
				t.Errorf("Client(%q, %q + own address in the same line) = %s", remote, forwarded, got)
			}
		}
		// One line and several lines are the same list.
		if parts := strings.Split(forwarded, ","); o.Client(remote, parts) != got {
			t.Errorf("Client(%q, %q) differs from that of %q", remote, forwarded, parts)
		}
	})
}

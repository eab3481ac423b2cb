package errlog

import (
	"fmt"
	"strings"
	"testing"
)

func TestMask(t *testing.T) {
	t.Parallel()
	f := func(in, want string) {
		t.Helper()
		if got := mask(in); got != want {
			t.Errorf("mask(%q)\n got %q\nwant %q", in, got, want)
		}
	}
	// What varies goes.
	f("registration follow-up failed: dial tcp 127.0.0.1:9: connect: connection refused", "registration follow-up failed: dial tcp <addr>: connect: connection refused")
	f("read tcp 10.0.0.7:51234->10.0.0.9:6379: i/o timeout", "read tcp <addr>-><addr>: i/o timeout")
	f("dial tcp [::1]:5432: connect: connection refused", "dial tcp [<addr>]:<num>: connect: connection refused")
	f("lookup took 1.5s, 12ms over", "lookup took <dur>, <dur> over")
	f("request 6ba7b810-9dad-11d1-80b4-00c04fd430c8 at 0xc000123abc in deadbeef01", "request <uuid> at <hex> in <hex>")
	f("used 97.5%, 12MB after #1000 tries", "used <num>, <num> after <num> tries")
	f("open /var/lib/x/y: no such file or directory", "open <path>: no such file or directory")
	f("  two\n\twords ", "two words")

	// What tells errors apart stays.
	f(`ERROR: duplicate key value violates unique constraint "names_pkey" (SQLSTATE 23505)`, "ERROR: duplicate key value violates unique constraint <str> (SQLSTATE 23505)")
	f("ERROR: relation missing (SQLSTATE 42P01)", "ERROR: relation missing (SQLSTATE 42P01)")
	f("follow-up: unexpected status 503", "follow-up: unexpected status 503")
	f("upstream says 502 Bad Gateway, port 502", "upstream says 502 Bad Gateway, port <num>")
	f("status=404 code=timeout user=anna", "status=404 code=timeout user=<*>")
	f("write: ECONNRESET, then E2BIG", "write: ECONNRESET, then E2BIG")
	for _, redis := range []string{
		"READONLY You can't write against a read only replica.", "OOM command not allowed when used memory > 'maxmemory'.",
		"LOADING Redis is loading the dataset in memory", "redis: connection pool timeout", "context deadline exceeded",
		"ERR max number of clients reached", "no space left on device", "too many open files", "CLUSTERDOWN Hash slot not served",
	} {
		f(redis, strings.Replace(redis, "'maxmemory'", "<str>", 1))
	}
	f("MOVED 3999 127.0.0.1:6381", "MOVED <num> <addr>")
	f("password authentication failed for user", "password authentication failed for user")

	// People go, wherever they stand.
	f(`register "anna": conflict`, "register <str>: conflict")
	f(`register "an\"na": conflict`, "register <str>: conflict")
	f("register 'anna': conflict", "register <str>: conflict")
	f("register “anna b”: conflict", "register <str>: conflict")
	f("user anna is locked", "user <*> is locked")
	f("username: anna", "username: <*>")
	f("no registration for anna", "no registration for <*>")
	f("mail to anna@example.com bounced", "mail to <mail> bounced")
	f("Key (username)=(anna b) already exists.", "Key (username)=<*> already exists.")
	f(`{"user":"anna","n":3}`, "{<str>:<str>,<str>:<num>}")
	f("name=anna, name = anna, name=(anna", "name=<*>, name = <*>, name=<*>")
	f("get redis:name:anna failed", "get <*> failed")
	f("GET /v1/names/anna?x=1 failed", "GET <path>=<*> failed")
	f("анна is free, anna99 is free, anna.b too", "<*> is free, <*> is free, <*> too")
	f(`cut off in "ann`, "cut off in <str>")

	// Secrets go.
	f("connect postgres://app:hunter2@db:5432/names?sslmode=disable: timeout", "connect <url>: timeout")
	f("connect postgres://app:a(b)\"c@db/names failed", "connect <url> failed")
	f("dsn host=db user=app password=swordfish dbname=n", "dsn host=<*> user=<*> password=<*> dbname=<*>")
	f("Authorization: Bearer swordfish", "Authorization: Bearer <*>")
	f("token swordfish was refused", "token <*> was refused")
	f("the password is swordfish", "the password is <*>")
	f("slack xoxb-1234-abcd said no", "slack <*> said no")
}

func TestMaskIsIdempotent(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "<*>", "b'c'", `a"b"c'd'`, "<nil> <num>", "x=(y", "a: 'b", "status 503 500", "is password is", "“x", "a:=b", "for for for x", "->x", "a -> b", "::", "::>", ".-->", "Bearer Bearer x", "1.2.3.4.5", "...", "a…b"} {
		once := mask(s)
		if twice := mask(once); twice != once {
			t.Errorf("%q: once %q, twice %q", s, once, twice)
		}
	}
}

func FuzzMask(f *testing.F) {
	for _, s := range []string{
		"registration of \"anna\" failed: dial tcp 127.0.0.1:9: connect: connection refused", "Key (name)=(x) user y SQLSTATE 23505",
		"postgres://u:p@h/d", "Authorization: Bearer x", "status 503 Service Unavailable", "“a” 'b' `c", "a='b", "a\x00b\xffc",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := mask(s)
		if twice := mask(once); twice != once {
			t.Errorf("%q: once %q, twice %q", s, once, twice)
		}
		// A secret does not survive wherever messages put one.
		const secret = "sw0rdfishzqxj"
		for _, frame := range []string{"%spostgres://app:" + secret + "@db/x", "%s password=" + secret, "%s Bearer " + secret, "%s user " + secret} {
			text := strings.Replace(frame, "%s", s, 1)
			if got := mask(text); strings.Contains(got, secret) {
				t.Errorf("%q: the secret survives in %q", text, got)
			}
		}
	})
}

func TestDrain(t *testing.T) {
	t.Parallel()
	d := newDrain()
	if got := d.add(groupKey{}, "").text(); got != "" {
		t.Errorf("no message: got %q", got)
	}
	key := groupKey{layer: "shard"}
	a := d.add(key, "cannot reserve anna right now")
	if b := d.add(key, "cannot reserve emil right now"); a != b || a.text() != "cannot reserve <*> right now" {
		t.Errorf("got %q and %q, want one template without the names", a.text(), b.text())
	}
	for _, other := range []string{"cannot reserve anna right", "must reserve anna right now", "cannot close the big door"} {
		if b := d.add(key, other); a == b {
			t.Errorf("%q has merged with %q", other, a.text())
		}
	}
	if b := d.add(groupKey{layer: "shard", code: "23505"}, "cannot reserve anna right now"); a == b {
		t.Error("templates merge across codes")
	}
	for i := range 3 * maxTemplates {
		d.add(key, "x "+fmt.Sprintf("w%c%c%c", 'a'+i%26, 'a'+i/26%26, 'a'+i/676))
	}
	if d.count != maxTemplates {
		t.Errorf("templates: got %d, want the limit of %d", d.count, maxTemplates)
	}
	if got := d.add(key, "one more").text(); got != overflow {
		t.Errorf("beyond the limit: got %q", got)
	}
}

func BenchmarkMaskAndGroup(b *testing.B) {
	lines := []string{
		"registration follow-up failed: dial tcp 127.0.0.1:9: connect: connection refused",
		`ERROR: duplicate key value violates unique constraint "names_pkey" (SQLSTATE 23505)`,
		"redis: connection pool timeout",
		"shard3: select took 1.532s, limit 1s: context deadline exceeded",
	}
	d := newDrain()
	for i := range b.N {
		d.add(groupKey{}, mask(lines[i%len(lines)]))
	}
}

package source_test

import (
	"strings"
	"testing"

	"github.com/regpath/diagnose/probes/source"
)

// TestAddresses: what cannot be an address is refused before anything is asked,
// whatever kind of address it is, and without a word of what may be a secret.
func TestAddresses(t *testing.T) {
	t.Parallel()
	f := func(check func(string) error, input, want string) {
		t.Helper()
		err := check(input)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: got %v, want no error", input, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %q", input, err, want)
		case err != nil && strings.Contains(err.Error(), "s3cret"):
			t.Errorf("%s: the error holds the secret: %v", input, err)
		}
	}
	const range16 = "not between 1 and 65535"
	for _, good := range []string{"http://h", "https://h:443/", "http://[::1]:8080/base", "http://127.0.0.1:65535"} {
		f(source.CheckURL, good, "")
	}
	f(source.CheckURL, "", "is needed")
	f(source.CheckURL, "http://127.0.0.1:99999", "the port 99999 is "+range16)
	f(source.CheckURL, "http://h:0", "the port 0 is "+range16)
	f(source.CheckURL, "http://h:s3cret", "is no URL")
	f(source.CheckURL, "127.0.0.1:8080", "is no URL")
	f(source.CheckURL, "admin:s3cret@h:1", "is no URL")
	f(source.CheckURL, "http://admin:s3cret@h:1", "holds credentials")
	f(source.CheckURL, "http://:8080", "names no host")
	f(source.CheckURL, "http:/h", "names no host")
	f(source.CheckURL, "http://h/?token=s3cret", "has a query")

	f(source.CheckEndpoint, "https://u:s3cret@h/hook?wait=true", "")
	f(source.CheckEndpoint, "https://u:s3cret@h:70000/hook", "the port 70000 is "+range16)
	f(source.CheckEndpoint, "http://h:0/hook", "the port 0 is "+range16)
	f(source.CheckEndpoint, "s3cret", "is no URL")

	for _, good := range []string{"h:6379", "127.0.0.1:1", "[::1]:65535", ":6379"} {
		f(source.CheckAddress, good, "")
	}
	f(source.CheckAddress, "localhost:70000", "the port 70000 is "+range16)
	f(source.CheckAddress, "localhost", "is not host:port")
	f(source.CheckAddress, "localhost:", "not a number")
	f(source.CheckAddress, "localhost:0", "the port 0 is "+range16)
	f(source.CheckAddress, "admin:s3cret", "not a number")
	f(source.CheckAddress, "u:s3cret@h:6379", "a password and the like go elsewhere")
	f(source.CheckAddress, "redis://h:6379", "is not host:port")

	for _, good := range []string{":0", "127.0.0.1:0", "[::1]:8080", ":http", "localhost:65535"} {
		f(source.CheckListen, good, "")
	}
	f(source.CheckListen, "http://h:0", "is not host:port")
	f(source.CheckListen, "u:s3cret@h:0", "a password and the like go elsewhere")
	f(source.CheckListen, ":70000", "the port 70000 is "+range16)
	f(source.CheckListen, "h:", "not a number")
	f(source.CheckListen, "h:s3cret", "not a number")
	f(source.CheckListen, "h", "is not host:port")
	f(source.CheckListen, "::1:0", "is not host:port")

	for _, good := range []string{"postgres://u:p@h:5432/d", "host=h port=5432 dbname=d"} {
		f(source.CheckDSN, good, "")
	}
	f(source.CheckDSN, "postgres://u:s3cret@h:70000/d", "the port is not a number from 1 to 65535")
	f(source.CheckDSN, "postgres://h:0/d", "the port is not a number from 1 to 65535")
	f(source.CheckDSN, "host=h port=70000 password=s3cret", "the port is not a number from 1 to 65535")
	f(source.CheckDSN, "postgres://u:s3cret/more@h/d", "the port is not a number from 1 to 65535")
	f(source.CheckDSN, "s3cret", "cannot be read")
}

package load

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// TestAddresses sees the requests come from as many addresses as were asked for, about as many from each. Only Linux has
// more than one loopback address without being told.
func TestAddresses(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	from := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		mu.Lock()
		from[host]++
		mu.Unlock()
	}))
	defer server.Close()
	const addresses, requests = 8, 400
	result, err := Run(t.Context(), server.URL, Profile{Rate: 2 * requests, Duration: time.Second / 2, Addresses: addresses, Workers: 8})
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(from) != addresses {
		t.Errorf("requests came from %v, want %d addresses", from, addresses)
	}
	for host, n := range from {
		if fair := int(result.Sent) / addresses; n < fair/3 || n > 3*fair {
			t.Errorf("%d of %d requests came from %s, want about an eighth", n, result.Sent, host)
		}
	}
	if _, err := Run(t.Context(), server.URL, Profile{Rate: 1, Duration: time.Second, Addresses: 201}); err == nil {
		t.Error("201 addresses: got no error")
	}
}

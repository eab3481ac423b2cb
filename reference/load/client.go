package load

import (
	"errors"
	"net"
	"net/http"
	"runtime"
	"syscall"
)

// newClients makes a client for every address that requests are to come from.
func newClients(p Profile) []*http.Client {
	clients := make([]*http.Client, max(1, p.Addresses))
	for i := range clients {
		clients[i] = newClient(p.Workers, localAddress(i, len(clients)))
	}
	return clients
}

// localAddress is the i-th address to send from, nil for the system's choice. Linux answers on all of 127.0.0.0/8; elsewhere
// there is one address.
func localAddress(i, of int) net.Addr {
	if of == 1 || runtime.GOOS != "linux" {
		return nil
	}
	return &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(i+1))}
}

// newDialer makes a dialer that, whatever a name resolves to by now, connects to loopback addresses only.
func newDialer(from net.Addr) *net.Dialer {
	return &net.Dialer{
		Timeout: defaultTimeout, LocalAddr: from,
		Control: func(_, address string, _ syscall.RawConn) error {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return err
			}
			if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
				return errors.New("not a loopback address")
			}
			return nil
		},
	}
}

// newClient makes a client that sends from the address, keeps a connection per worker open, uses no proxy and follows no
// redirect.
func newClient(workers int, from net.Addr) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:         newDialer(from).DialContext,
			MaxConnsPerHost:     workers,
			MaxIdleConnsPerHost: workers,
			DisableCompression:  true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

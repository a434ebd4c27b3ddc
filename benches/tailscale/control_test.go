// Package control serves Tailscale's own control server and relay for tests, on addresses of a
// benchmark's network: nothing of it leaves the machine.
//
// Build it once, beside tailscaled and tailscale:
//
//	go mod init control && go get tailscale.com@v1.98.10 && go mod tidy
//	go test -c -o tailscale-control
//	go get tailscale.com/cmd/tailscale@v1.98.10 tailscale.com/cmd/tailscaled@v1.98.10
//	go build tailscale.com/cmd/tailscaled tailscale.com/cmd/tailscale
package control

import (
	"net"
	"net/http"
	"os"
	"testing"

	"tailscale.com/tstest/integration"
	"tailscale.com/tstest/integration/testcontrol"
)

// TestServe serves at port 8090 of the address in CONTROL until it is killed.
func TestServe(t *testing.T) {
	address := os.Getenv("CONTROL")
	if address == "" {
		t.Skip("CONTROL names no address")
	}
	at := net.JoinHostPort(address, "8090")
	server := &testcontrol.Server{
		DERPMap:          integration.RunDERPAndSTUN(t, t.Logf, address),
		ExplicitBaseURL:  "http://" + at,
		AllNodesSameUser: true,
		AllOnline:        true,
	}
	listener, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Fatal(http.Serve(listener, server))
}

// Command scaleset-client drives the pretended GitHub through GitHub's own Go client.
//
// It is the judge that neither our client nor our fake GitHub can argue with: everything
// exported by github.com/actions/scaleset v0.4.0 is used, against servers whose addresses the
// starter (tools/go_client.py) hands over. One line of JSON per check goes to stdout; the exit
// code is 1 when one failed. `wire` as second argument plays one fixed scene instead, so that
// what the client sends can be recorded and compared with what ours sends.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

// world is what the starter tells: the servers, and the files that belong to them.
type world struct {
	Push    string `json:"push"`    // jobs are assigned at once; knows one PAT and one app
	Acquire string `json:"acquire"` // jobs are offered and must be acquired
	Short   string `json:"short"`   // tokens live for seconds
	TLS     string `json:"tls"`     // as push, over HTTPS with a private root
	HoldS   int    `json:"hold_s"`  // how long each of them holds an empty poll

	Token        string `json:"token"`
	AppID        string `json:"app_id"`
	Installation int64  `json:"installation"`
	KeyPKCS1     string `json:"key_pkcs1"`   // files
	KeyPKCS8     string `json:"key_pkcs8"`   //
	ForeignKey   string `json:"foreign_key"` // a key the app does not know
	RootCA       string `json:"root_ca"`
	ForeignCA    string `json:"foreign_ca"`
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: scaleset-client WORLD.json [wire]")
		os.Exit(2)
	}
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	var w world
	if err := json.Unmarshal(text, &w); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
		os.Exit(2)
	}
	s := &suite{world: w, out: json.NewEncoder(os.Stdout)}
	if len(os.Args) > 2 && os.Args[2] == "wire" {
		wireChecks(s)
	} else {
		authChecks(s)
		scaleSetChecks(s)
		runnerChecks(s)
		sessionChecks(s)
		tokenChecks(s)
		acquireChecks(s)
		retryChecks(s)
		transportChecks(s)
		listenerChecks(s)
	}
	if s.failed > 0 || s.ran == 0 {
		os.Exit(1)
	}
}

// Command customer is a function as a customer may have one: it does what the
// arguments of the call say. It speaks Lambda's runtime interface by itself, so
// that it can also misbehave in ways that a library would not let it.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	base := "http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/"
	for {
		resp, err := http.Get(base + "next")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		event, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		id := resp.Header.Get("Lambda-Runtime-Aws-Request-Id")
		answer, failed := do(event)
		path := "/response"
		if failed {
			path = "/error"
		}
		resp, err = http.Post(base+id+path, "application/json", bytes.NewReader(answer))
		if err == nil {
			resp.Body.Close()
		}
	}
}

func do(event []byte) (answer []byte, failed bool) {
	var call struct {
		Arguments struct {
			Do   string          `json:"do"`
			With json.RawMessage `json:"with"`
		} `json:"arguments"`
	}
	json.Unmarshal(event, &call)
	switch call.Arguments.Do {
	case "answer":
		return call.Arguments.With, false
	case "large":
		var n int
		json.Unmarshal(call.Arguments.With, &n)
		return []byte(`"` + strings.Repeat("x", n) + `"`), false
	case "fail":
		return []byte(`{"errorMessage":"no such customer","errorType":"errorString"}`), true
	case "panic":
		return []byte(`{"errorMessage":"index out of range","errorType":"boundsError","stackTrace":[{"path":"secret/main.go","line":7,"label":"do"}]}`), true
	case "exit":
		os.Exit(1)
	case "sleep":
		time.Sleep(time.Minute)
	}
	return event, false // echo
}

// Command standin is a function that asks a server what to do, which STAGE
// names. It speaks Lambda's runtime interface by itself, so that its errors
// have the names that it is told, those of Lambda's own among them.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	base := "http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/"
	for {
		if err := next(base); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func next(base string) error {
	resp, err := http.Get(base + "next")
	if err != nil {
		return err
	}
	event, err := read(resp)
	if err != nil {
		return err
	}
	raw, err := post(os.Getenv("STAGE"), event)
	if err != nil {
		return err
	}
	var said struct {
		Error  string          `json:"error"`
		Answer json.RawMessage `json:"answer"`
	}
	if err = json.Unmarshal(raw, &said); err != nil {
		return err
	}
	at := base + resp.Header.Get("Lambda-Runtime-Aws-Request-Id")
	if said.Error == "" {
		_, err = post(at+"/response", said.Answer)
		return err
	}
	failure, err := json.Marshal(map[string]string{"errorType": said.Error, "errorMessage": "told to fail with a secret"})
	if err != nil {
		return err
	}
	_, err = post(at+"/error", failure)
	return err
}

func post(url string, body []byte) ([]byte, error) {
	resp, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return read(resp)
}

func read(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return body, err
}

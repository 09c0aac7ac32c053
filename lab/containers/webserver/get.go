package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// patience is how long a server may take to answer.
const patience = 2 * time.Second

// getAll prints a line for each URL: the answer, or an error. Each request has a connection of its own.
func getAll(urls []string) error {
	for _, u := range urls {
		text, err := get(u)
		if err != nil {
			text = "error: " + err.Error()
		}
		fmt.Println(strings.TrimSpace(text))
	}
	return nil
}

// runCurl prints the answer to a request for the last argument, whatever the options are.
func runCurl(args []string) error {
	if len(args) == 0 {
		return errors.New("it needs a URL")
	}
	text, err := get(args[len(args)-1])
	fmt.Print(text)
	return err
}

func get(url string) (string, error) {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, body)
	}
	return string(body), err
}

package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// patience is how long a server may take to answer.
const patience = 5 * time.Second

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

func get(url string) (string, error) {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return string(body), err
}

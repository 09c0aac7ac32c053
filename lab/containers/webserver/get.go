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

// timeAll prints a line for each round: how long the answer to a request for each URL took to begin. Each request has a connection of its own,
// and each round begins with another URL.
func timeAll(rounds int, urls []string) error {
	for round := range rounds {
		took := make([]string, len(urls))
		for n := range urls {
			i := (round + n) % len(urls)
			began := time.Now()
			answer, err := request(urls[i])
			if err != nil {
				return err
			}
			took[i] = fmt.Sprint(time.Since(began).Microseconds())
			if err := answer.Body.Close(); err != nil {
				return err
			}
		}
		fmt.Println(strings.Join(took, " "))
	}
	return nil
}

func request(url string) (*http.Response, error) {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	return client.Get(url)
}

func get(url string) (string, error) {
	answer, err := request(url)
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

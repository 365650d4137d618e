module box

go 1.26.0

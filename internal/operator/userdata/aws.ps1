
# Networks of containers come and go, and with them the routes to Amazon's metadata service, unless Amazon's agent keeps them. Agents that
# cannot are left as they are: nothing is downloaded here.
function Set-Routes {
    $agent = Join-Path $env:ProgramFiles 'Amazon\EC2Launch\EC2Launch.exe'
    if (-not (Test-Path $agent)) {
        Write-Host 'There is no EC2Launch v2: pods may lose the way to the metadata service.'
        return
    }
    $version = [version]'0.0'
    if ((& $agent version | Out-String) -match '\d+(\.\d+){1,3}') { $version = [version]$Matches[0] }
    if ($version -lt [version]'2.0.2107') {
        Write-Host "EC2Launch $version cannot keep routes, 2.0.2107 can: pods may lose the way to the metadata service."
        return
    }
    & $agent run-task add-routes --persistent
    if ($LASTEXITCODE -ne 0) { throw "EC2Launch.exe run-task add-routes ended with $LASTEXITCODE" }
}

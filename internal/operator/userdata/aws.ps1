
# Windows removes the routes to Amazon's metadata service when container networks are removed, unless Amazon's agent restores them. An
# agent that cannot is not replaced: this script downloads nothing.
function Set-Routes {
    $agent = Join-Path $env:ProgramFiles 'Amazon\EC2Launch\EC2Launch.exe'
    if (-not (Test-Path $agent)) {
        Write-Host 'EC2Launch v2 is not installed: pods may lose the route to the metadata service.'
        return
    }
    $version = [version]'0.0'
    if ((& $agent version | Out-String) -match '\d+(\.\d+){1,3}') { $version = [version]$Matches[0] }
    if ($version -lt [version]'2.0.2107') {
        Write-Host "EC2Launch $version cannot keep routes (2.0.2107 or later can): pods may lose the route to the metadata service."
        return
    }
    & $agent run-task add-routes --persistent
    if ($LASTEXITCODE -ne 0) { throw "EC2Launch.exe run-task add-routes exited with code $LASTEXITCODE" }
}
